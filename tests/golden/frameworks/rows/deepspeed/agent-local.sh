dlrun_take_ports 20000 29999 1 # from, to, how many: DLRUN_MASTER_PORT is the first
export OMP_NUM_THREADS=8 # 8 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so a killed rank loses no lines [Python documentation, Command line and environment]
# 1 × agent, 1 on each node
dlrun_launch dlrun_local 1 bash "$DLRUN_JOB_DIR/rank.sh" agent

export DS_ACCELERATOR=cpu # there are no GPUs [DeepSpeed, accelerator/real_accelerator.py]
dlrun_run python -m deepspeed.launcher.runner --hostfile "$(dlrun_hostfile 1 1)" --no_ssh --node_rank "$DLRUN_NODE_RANK" --master_addr "$DLRUN_MASTER_ADDR" --master_port "$DLRUN_MASTER_PORT" --no_local_rank examples/deepspeed/train.py --steps 60
