dlrun_take_ports 20000 29999 1 # from, to, how many: DLRUN_MASTER_PORT is the first
DLRUN_MASTER_IP=$(dlrun_numeric "$DLRUN_MASTER_ADDR")
export OMP_NUM_THREADS=48 # 48 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so a killed rank loses no lines [Python documentation, Command line and environment]
# 1 × scheduler, 1 on the first node
dlrun_service_that_ends dlrun_ssh "$DLRUN_HOSTS"-first 1 1 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" scheduler
# 2 × server, 1 on each node
dlrun_service_that_ends dlrun_ssh "$DLRUN_HOSTS" 1 2 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" server
# 2 × worker, 1 on each node
dlrun_launch dlrun_ssh "$DLRUN_HOSTS" 1 2 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" worker

case $1 in
scheduler)
  export DMLC_PS_ROOT_URI="$DLRUN_MASTER_IP" # the scheduler's node, as an IP: ps-lite binds no names [MXNet documentation, Distributed training]
  export DMLC_PS_ROOT_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on that node [MXNet documentation, Distributed training]
  export DMLC_NUM_SERVER=2 # servers of all nodes [MXNet documentation, Distributed training]
  export DMLC_NUM_WORKER=2 # one worker a rank [MXNet documentation, Distributed training]
  export DMLC_INTERFACE=eth0 # the site's fabric [MXNet documentation, Distributed training]
  export DMLC_ROLE=scheduler # role of this process [MXNet documentation, Distributed training]
  dlrun_run python examples/mxnet/train.py --store dist_sync --steps 60
  ;;
server)
  export DMLC_PS_ROOT_URI="$DLRUN_MASTER_IP" # the scheduler's node, as an IP: ps-lite binds no names [MXNet documentation, Distributed training]
  export DMLC_PS_ROOT_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on that node [MXNet documentation, Distributed training]
  export DMLC_NUM_SERVER=2 # servers of all nodes [MXNet documentation, Distributed training]
  export DMLC_NUM_WORKER=2 # one worker a rank [MXNet documentation, Distributed training]
  export DMLC_INTERFACE=eth0 # the site's fabric [MXNet documentation, Distributed training]
  export DMLC_ROLE=server # role of this process [MXNet documentation, Distributed training]
  dlrun_run python examples/mxnet/train.py --store dist_sync --steps 60
  ;;
worker)
  export DMLC_PS_ROOT_URI="$DLRUN_MASTER_IP" # the scheduler's node, as an IP: ps-lite binds no names [MXNet documentation, Distributed training]
  export DMLC_PS_ROOT_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on that node [MXNet documentation, Distributed training]
  export DMLC_NUM_SERVER=2 # servers of all nodes [MXNet documentation, Distributed training]
  export DMLC_NUM_WORKER=2 # one worker a rank [MXNet documentation, Distributed training]
  export DMLC_INTERFACE=eth0 # the site's fabric [MXNet documentation, Distributed training]
  export DMLC_ROLE=worker # role of this process [MXNet documentation, Distributed training]
  dlrun_run python examples/mxnet/train.py --store dist_sync --steps 60
  ;;
esac
