DLRUN_MASTER_IP=$(dlrun_numeric "$DLRUN_MASTER_ADDR")
# 1 × scheduler, on the first node
dlrun_service_that_ends dlrun_ssh "$DLRUN_HOSTS"-first 1 1 1 ssh bash -p "$DLRUN_JOB_DIR/rank.sh" scheduler
# 16 × server, 1 on each node
dlrun_service_that_ends dlrun_ssh "$DLRUN_HOSTS" 1 16 1 ssh bash -p "$DLRUN_JOB_DIR/rank.sh" server
# 16 × worker, 1 on each node
dlrun_launch dlrun_ssh "$DLRUN_HOSTS" 1 16 1 ssh bash -p "$DLRUN_JOB_DIR/rank.sh" worker

DLRUN_OWN_ADDRESS=$(dlrun_numeric "$DLRUN_HOST")
export DLRUN_OWN_ADDRESS # under which other nodes reach this one
case $1 in
scheduler)
  export DMLC_PS_ROOT_URI="$DLRUN_MASTER_IP" # the scheduler's IP address: ps-lite does not bind to host names [MXNet documentation, Distributed training]
  export DMLC_PS_ROOT_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on that node [MXNet documentation, Distributed training]
  export DMLC_NUM_SERVER=16 # number of servers on all nodes [MXNet documentation, Distributed training]
  export DMLC_NUM_WORKER=16 # one worker per rank [MXNet documentation, Distributed training]
  export DMLC_NODE_HOST="$DLRUN_OWN_ADDRESS" # this node, by the site's address rule [MXNet documentation, Distributed training]
  export DMLC_ROLE=scheduler # role of this process [MXNet documentation, Distributed training]
  dlrun_run python image-classification/train_imagenet.py --network=resnet --num-layers=50 --gpus=0,1,2,3 --kv-store=dist_device_sync
  ;;
server)
  export DMLC_PS_ROOT_URI="$DLRUN_MASTER_IP" # the scheduler's IP address: ps-lite does not bind to host names [MXNet documentation, Distributed training]
  export DMLC_PS_ROOT_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on that node [MXNet documentation, Distributed training]
  export DMLC_NUM_SERVER=16 # number of servers on all nodes [MXNet documentation, Distributed training]
  export DMLC_NUM_WORKER=16 # one worker per rank [MXNet documentation, Distributed training]
  export DMLC_NODE_HOST="$DLRUN_OWN_ADDRESS" # this node, by the site's address rule [MXNet documentation, Distributed training]
  export DMLC_ROLE=server # role of this process [MXNet documentation, Distributed training]
  dlrun_run python image-classification/train_imagenet.py --network=resnet --num-layers=50 --gpus=0,1,2,3 --kv-store=dist_device_sync
  ;;
worker)
  export DMLC_PS_ROOT_URI="$DLRUN_MASTER_IP" # the scheduler's IP address: ps-lite does not bind to host names [MXNet documentation, Distributed training]
  export DMLC_PS_ROOT_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on that node [MXNet documentation, Distributed training]
  export DMLC_NUM_SERVER=16 # number of servers on all nodes [MXNet documentation, Distributed training]
  export DMLC_NUM_WORKER=16 # one worker per rank [MXNet documentation, Distributed training]
  export DMLC_NODE_HOST="$DLRUN_OWN_ADDRESS" # this node, by the site's address rule [MXNet documentation, Distributed training]
  export DMLC_ROLE=worker # role of this process [MXNet documentation, Distributed training]
  export KMP_BLOCKTIME=1 # idle threads of Intel's OpenMP sleep after 1 ms, because other threads of the rank need the cores [pytorch torch/backends/xeon/run_cpu.py]
  dlrun_run python image-classification/train_imagenet.py --network=resnet --num-layers=50 --gpus=0,1,2,3 --kv-store=dist_device_sync
  ;;
esac
