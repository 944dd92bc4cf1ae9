DLRUN_MASTER_IP=$(numeric "$DLRUN_MASTER_ADDR") # for those that take no name
take_ports 1
export OMP_NUM_THREADS=48 # 48 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # lines reach the log when they are printed, and a killed rank loses none [Python documentation, Command line and environment]
export DLRUN_LAUNCHED # when, in ns by this node's clock, so that after a failure those of others can be put right
# 2 × node, 1 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_ssh "$run_dir"/hosts 1 2 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" node </dev/null &
# 1 × driver, 1 on the first node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_ssh "$run_dir"/hosts-first 1 1 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" driver </dev/null &

command=()
case $role in
node)
  export RAY_NUM_REDIS_GET_RETRIES=120 # seconds that nodes wait for the head [Ray, _private/ray_constants.py]
  if ((DLRUN_RANK == 0)); then
    command=(ray start --head --port="$DLRUN_MASTER_PORT" --temp-dir=/tmp/ray-"$UID-$DLRUN_MASTER_PORT" --include-dashboard=false --node-ip-address="$(own_address)" --num-cpus="$(env -u OMP_NUM_THREADS nproc)" --num-gpus=0 --disable-usage-stats --block)
  else
    command=(ray start --address="$DLRUN_MASTER_IP":"$DLRUN_MASTER_PORT" --node-ip-address="$(own_address)" --num-cpus="$(env -u OMP_NUM_THREADS nproc)" --num-gpus=0 --disable-usage-stats --block)
  fi
  ;;
driver)
  export RAY_ADDRESS="$DLRUN_MASTER_IP":"$DLRUN_MASTER_PORT" # the head of this job's nodes [Ray documentation, Launching an on-premise cluster]
  command=(python examples/ray/train.py --workers 2 --steps 60)
  ;;
esac
