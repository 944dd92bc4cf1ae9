take_ports 1
export OMP_NUM_THREADS=8 # 8 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # lines reach the log when they are printed, and a killed rank loses none [Python documentation, Command line and environment]
export DLRUN_LAUNCHED # when, in ns by this node's clock, so that after a failure those of others can be put right
# 1 × agent, 1 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_local 1 bash "$DLRUN_JOB_DIR/rank.sh" agent </dev/null &

command=()
case $role in
agent)
  export DS_ACCELERATOR=cpu # there are no GPUs [DeepSpeed, accelerator/real_accelerator.py]
  command=(python -m deepspeed.launcher.runner --hostfile "$(hostfile 1 1)" --no_ssh --node_rank "$DLRUN_NODE_RANK" --master_addr "$DLRUN_MASTER_ADDR" --master_port "$DLRUN_MASTER_PORT" --no_local_rank examples/deepspeed/train.py --steps 60)
  ;;
esac
