DLRUN_MASTER_IP=$(dlrun_numeric "$DLRUN_MASTER_ADDR")
# 1 × scheduler, on the first node
dlrun_service_that_ends srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 \
  --export=ALL --cpu-bind=none --overlap --nodelist="$DLRUN_FIRST_HOST" bash -p "$DLRUN_JOB_DIR/rank.sh" scheduler
# 2 × server, 1 on each node
dlrun_service_that_ends srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 \
  --export=ALL --cpu-bind=none --overlap bash -p "$DLRUN_JOB_DIR/rank.sh" server
# 2 × worker, 1 on each node
dlrun_launch srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --overlap bash -p "$DLRUN_JOB_DIR/rank.sh" worker

case $1 in
scheduler)
  export DMLC_PS_ROOT_URI="$DLRUN_MASTER_IP" # the scheduler's IP address: ps-lite does not bind to host names [MXNet documentation, Distributed training]
  export DMLC_PS_ROOT_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on that node [MXNet documentation, Distributed training]
  export DMLC_NUM_SERVER=2 # number of servers on all nodes [MXNet documentation, Distributed training]
  export DMLC_NUM_WORKER=2 # one worker per rank [MXNet documentation, Distributed training]
  export DMLC_INTERFACE=ib0 # the site's fabric [MXNet documentation, Distributed training]
  export DMLC_ROLE=scheduler # role of this process [MXNet documentation, Distributed training]
  dlrun_run python examples/mxnet/train.py --store dist_sync --steps 60
  ;;
server)
  export DMLC_PS_ROOT_URI="$DLRUN_MASTER_IP" # the scheduler's IP address: ps-lite does not bind to host names [MXNet documentation, Distributed training]
  export DMLC_PS_ROOT_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on that node [MXNet documentation, Distributed training]
  export DMLC_NUM_SERVER=2 # number of servers on all nodes [MXNet documentation, Distributed training]
  export DMLC_NUM_WORKER=2 # one worker per rank [MXNet documentation, Distributed training]
  export DMLC_INTERFACE=ib0 # the site's fabric [MXNet documentation, Distributed training]
  export DMLC_ROLE=server # role of this process [MXNet documentation, Distributed training]
  dlrun_run python examples/mxnet/train.py --store dist_sync --steps 60
  ;;
worker)
  export DMLC_PS_ROOT_URI="$DLRUN_MASTER_IP" # the scheduler's IP address: ps-lite does not bind to host names [MXNet documentation, Distributed training]
  export DMLC_PS_ROOT_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on that node [MXNet documentation, Distributed training]
  export DMLC_NUM_SERVER=2 # number of servers on all nodes [MXNet documentation, Distributed training]
  export DMLC_NUM_WORKER=2 # one worker per rank [MXNet documentation, Distributed training]
  export DMLC_INTERFACE=ib0 # the site's fabric [MXNet documentation, Distributed training]
  export DMLC_ROLE=worker # role of this process [MXNet documentation, Distributed training]
  export KMP_BLOCKTIME=1 # idle threads of Intel's OpenMP sleep after 1 ms, because other threads of the rank need the cores [pytorch torch/backends/xeon/run_cpu.py]
  dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
  dlrun_run python examples/mxnet/train.py --store dist_sync --steps 60
  ;;
esac
