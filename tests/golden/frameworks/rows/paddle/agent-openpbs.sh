DLRUN_MASTER_IP=$(numeric "$DLRUN_MASTER_ADDR") # for those that take no name
take_ports 2
export OMP_NUM_THREADS=48 # 48 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # lines reach the log when they are printed, and a killed rank loses none [Python documentation, Command line and environment]
export DLRUN_LAUNCHED # when, in ns by this node's clock, so that after a failure those of others can be put right
# 2 × agent, 1 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_ssh "$run_dir"/hosts 1 2 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" agent </dev/null &

command=()
case $role in
agent)
  export PADDLE_DISTRI_BACKEND=gloo # there are no GPUs [Paddle 3.3, paddle/distributed/launch/context/args_envs.py]
  command=(python -m paddle.distributed.launch --master "$DLRUN_MASTER_IP":"$DLRUN_MASTER_PORT" --nnodes 2 --nproc_per_node 1 --rank "$DLRUN_NODE_RANK" --host "$(own_address)" --job_id "$DLRUN_RUN_ID" --log_dir "$DLRUN_RUN_DIR"/logs/paddle-"$DLRUN_NODE_RANK" examples/paddle/train.py --steps 60)
  ;;
esac
