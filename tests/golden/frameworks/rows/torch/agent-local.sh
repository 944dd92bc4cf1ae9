dlrun_take_ports 20000 29999 1 # from, to, how many: DLRUN_MASTER_PORT is the first
export OMP_NUM_THREADS=8 # 8 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so a killed rank loses no lines [Python documentation, Command line and environment]
# 1 × agent, 1 on each node
dlrun_launch dlrun_local 1 bash "$DLRUN_JOB_DIR/rank.sh" agent

dlrun_run python -m torch.distributed.run --nnodes=1 --nproc-per-node=1 --max-restarts=0 --node-rank="$DLRUN_NODE_RANK" --master-addr="$DLRUN_MASTER_ADDR" --master-port="$DLRUN_MASTER_PORT" examples/torch/train.py --steps 60
