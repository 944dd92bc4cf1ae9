DLRUN_MASTER_IP=$(numeric "$DLRUN_MASTER_ADDR") # for those that take no name
take_ports 1
export PYTHONUNBUFFERED=1 # lines reach the log when they are printed, and a killed rank loses none [Python documentation, Command line and environment]
export DLRUN_LAUNCHED # when, in ns by this node's clock, so that after a failure those of others can be put right
# 1 × scheduler, 1 on the first node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_ssh "$run_dir"/hosts-first 1 1 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" scheduler </dev/null &
# 16 × server, 1 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_ssh "$run_dir"/hosts 1 16 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" server </dev/null &
# 16 × worker, 1 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_ssh "$run_dir"/hosts 1 16 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" worker </dev/null &

command=()
case $role in
scheduler)
  export DMLC_PS_ROOT_URI="$DLRUN_MASTER_IP" # the scheduler's node, as an IP: ps-lite binds no names [MXNet documentation, Distributed training]
  export DMLC_PS_ROOT_PORT="$DLRUN_MASTER_PORT" # derived from the job id, found free there [MXNet documentation, Distributed training]
  export DMLC_NUM_SERVER=16 # servers of all nodes [MXNet documentation, Distributed training]
  export DMLC_NUM_WORKER=16 # one worker a rank [MXNet documentation, Distributed training]
  export DMLC_NODE_HOST
  DMLC_NODE_HOST="$(own_address)" # this node, by the site's address rule [MXNet documentation, Distributed training]
  export DMLC_ROLE=scheduler # what this process is for [MXNet documentation, Distributed training]
  command=(python image-classification/train_imagenet.py --network=resnet --num-layers=50 --gpus=0,1,2,3 --kv-store=dist_device_sync)
  ;;
server)
  export DMLC_PS_ROOT_URI="$DLRUN_MASTER_IP" # the scheduler's node, as an IP: ps-lite binds no names [MXNet documentation, Distributed training]
  export DMLC_PS_ROOT_PORT="$DLRUN_MASTER_PORT" # derived from the job id, found free there [MXNet documentation, Distributed training]
  export DMLC_NUM_SERVER=16 # servers of all nodes [MXNet documentation, Distributed training]
  export DMLC_NUM_WORKER=16 # one worker a rank [MXNet documentation, Distributed training]
  export DMLC_NODE_HOST
  DMLC_NODE_HOST="$(own_address)" # this node, by the site's address rule [MXNet documentation, Distributed training]
  export DMLC_ROLE=server # what this process is for [MXNet documentation, Distributed training]
  command=(python image-classification/train_imagenet.py --network=resnet --num-layers=50 --gpus=0,1,2,3 --kv-store=dist_device_sync)
  ;;
worker)
  export DMLC_PS_ROOT_URI="$DLRUN_MASTER_IP" # the scheduler's node, as an IP: ps-lite binds no names [MXNet documentation, Distributed training]
  export DMLC_PS_ROOT_PORT="$DLRUN_MASTER_PORT" # derived from the job id, found free there [MXNet documentation, Distributed training]
  export DMLC_NUM_SERVER=16 # servers of all nodes [MXNet documentation, Distributed training]
  export DMLC_NUM_WORKER=16 # one worker a rank [MXNet documentation, Distributed training]
  export DMLC_NODE_HOST
  DMLC_NODE_HOST="$(own_address)" # this node, by the site's address rule [MXNet documentation, Distributed training]
  export DMLC_ROLE=worker # what this process is for [MXNet documentation, Distributed training]
  command=(python image-classification/train_imagenet.py --network=resnet --num-layers=50 --gpus=0,1,2,3 --kv-store=dist_device_sync)
  ;;
esac
