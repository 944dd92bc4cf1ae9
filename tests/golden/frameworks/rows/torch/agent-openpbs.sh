dlrun_take_ports 20000 29999 1 # from, to, how many: DLRUN_MASTER_PORT is the first
export OMP_NUM_THREADS=48 # 48 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so a killed rank loses no lines [Python documentation, Command line and environment]
# 2 × agent, 1 on each node
dlrun_launch dlrun_ssh "$DLRUN_HOSTS" 1 2 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" agent

export GLOO_SOCKET_IFNAME=eth0 # Gloo uses the site's fabric instead of the interface of the host name [PyTorch documentation, torch.distributed]
dlrun_run python -m torch.distributed.run --nnodes=2 --nproc-per-node=1 --max-restarts=0 --node-rank="$DLRUN_NODE_RANK" --master-addr="$DLRUN_MASTER_ADDR" --master-port="$DLRUN_MASTER_PORT" examples/torch/train.py --steps 60
