DLRUN_MASTER_IP=$(dlrun_numeric "$DLRUN_MASTER_ADDR")
# 1 × node, 1 on each node
dlrun_service dlrun_local 1 bash -p "$DLRUN_JOB_DIR/rank.sh" node
until [[ $(ray status --address="$DLRUN_MASTER_IP:$DLRUN_MASTER_PORT" 2>/dev/null | grep -c "^ *[0-9]* node_") -ge 1 ]]; do dlrun_still_waiting node; done
# 1 × driver, on the first node
dlrun_launch dlrun_local 1 bash -p "$DLRUN_JOB_DIR/rank.sh" driver

DLRUN_OWN_ADDRESS=$(dlrun_numeric "127.0.0.1")
export DLRUN_OWN_ADDRESS # under which other nodes reach this one
case $1 in
node)
  export RAY_NUM_REDIS_GET_RETRIES=120 # the seconds for which nodes wait for the head [Ray, _private/ray_constants.py]
  if ((DLRUN_RANK == 0)); then
    dlrun_run ray start --head --port="$DLRUN_MASTER_PORT" --temp-dir=/tmp/ray-"$UID-$DLRUN_MASTER_PORT" --include-dashboard=false --node-ip-address="$DLRUN_OWN_ADDRESS" --num-cpus="$(env -u OMP_NUM_THREADS nproc)" --num-gpus=0 --disable-usage-stats --block
  else
    dlrun_run ray start --address="$DLRUN_MASTER_IP":"$DLRUN_MASTER_PORT" --node-ip-address="$DLRUN_OWN_ADDRESS" --num-cpus="$(env -u OMP_NUM_THREADS nproc)" --num-gpus=0 --disable-usage-stats --block
  fi
  ;;
driver)
  export RAY_ADDRESS="$DLRUN_MASTER_IP":"$DLRUN_MASTER_PORT" # the head node of this job [Ray documentation, Launching an on-premise cluster]
  dlrun_run python examples/ray/train.py --workers 1 --steps 60
  ;;
esac
