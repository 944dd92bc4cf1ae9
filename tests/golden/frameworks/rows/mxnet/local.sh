DLRUN_MASTER_IP=$(numeric "$DLRUN_MASTER_ADDR") # for those that take no name
take_ports 1
export OMP_NUM_THREADS=8 # 8 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # lines reach the log when they are printed, and a killed rank loses none [Python documentation, Command line and environment]
export DLRUN_LAUNCHED # when, in ns by this node's clock, so that after a failure those of others can be put right
# 1 × scheduler, 1 on the first node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_local 1 bash "$DLRUN_JOB_DIR/rank.sh" scheduler </dev/null &
# 1 × server, 1 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_local 1 bash "$DLRUN_JOB_DIR/rank.sh" server </dev/null &
# 1 × worker, 1 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_local 1 bash "$DLRUN_JOB_DIR/rank.sh" worker </dev/null &

command=()
case $role in
scheduler)
  export DMLC_PS_ROOT_URI="$DLRUN_MASTER_IP" # the scheduler's node, as an IP: ps-lite binds no names [MXNet documentation, Distributed training]
  export DMLC_PS_ROOT_PORT="$DLRUN_MASTER_PORT" # derived from the job id, found free there [MXNet documentation, Distributed training]
  export DMLC_NUM_SERVER=1 # servers of all nodes [MXNet documentation, Distributed training]
  export DMLC_NUM_WORKER=1 # one worker a rank [MXNet documentation, Distributed training]
  export DMLC_NODE_HOST
  DMLC_NODE_HOST="$(own_address)" # this node, by the site's address rule [MXNet documentation, Distributed training]
  export DMLC_ROLE=scheduler # what this process is for [MXNet documentation, Distributed training]
  command=(python examples/mxnet/train.py --store dist_sync --steps 60)
  ;;
server)
  export DMLC_PS_ROOT_URI="$DLRUN_MASTER_IP" # the scheduler's node, as an IP: ps-lite binds no names [MXNet documentation, Distributed training]
  export DMLC_PS_ROOT_PORT="$DLRUN_MASTER_PORT" # derived from the job id, found free there [MXNet documentation, Distributed training]
  export DMLC_NUM_SERVER=1 # servers of all nodes [MXNet documentation, Distributed training]
  export DMLC_NUM_WORKER=1 # one worker a rank [MXNet documentation, Distributed training]
  export DMLC_NODE_HOST
  DMLC_NODE_HOST="$(own_address)" # this node, by the site's address rule [MXNet documentation, Distributed training]
  export DMLC_ROLE=server # what this process is for [MXNet documentation, Distributed training]
  command=(python examples/mxnet/train.py --store dist_sync --steps 60)
  ;;
worker)
  export DMLC_PS_ROOT_URI="$DLRUN_MASTER_IP" # the scheduler's node, as an IP: ps-lite binds no names [MXNet documentation, Distributed training]
  export DMLC_PS_ROOT_PORT="$DLRUN_MASTER_PORT" # derived from the job id, found free there [MXNet documentation, Distributed training]
  export DMLC_NUM_SERVER=1 # servers of all nodes [MXNet documentation, Distributed training]
  export DMLC_NUM_WORKER=1 # one worker a rank [MXNet documentation, Distributed training]
  export DMLC_NODE_HOST
  DMLC_NODE_HOST="$(own_address)" # this node, by the site's address rule [MXNet documentation, Distributed training]
  export DMLC_ROLE=worker # what this process is for [MXNet documentation, Distributed training]
  command=(python examples/mxnet/train.py --store dist_sync --steps 60)
  ;;
esac
