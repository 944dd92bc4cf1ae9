dlrun_take_ports 20000 29999 3 # from, to, how many: DLRUN_MASTER_PORT is the first
# 1 × ps, 1 on each node
dlrun_service dlrun_local 1 bash "$DLRUN_JOB_DIR/rank.sh" ps
# 1 × worker, 1 on each node
dlrun_service dlrun_local 1 bash "$DLRUN_JOB_DIR/rank.sh" worker
# 1 × chief, on the first node
dlrun_launch dlrun_local 1 bash "$DLRUN_JOB_DIR/rank.sh" chief

case $1 in
ps)
  export TF_CONFIG
  TF_CONFIG='{"cluster": {"worker": ['"$(dlrun_endpoints 0 1 1 '"')"'], "ps": ['"$(dlrun_endpoints 1 1 1 '"')"'], "chief": ['"$(dlrun_endpoints 2 1 1 '"')"']}, "task": {"type": "ps", "index": '"$DLRUN_RANK"'}}' # all tasks in order of rank, and which one this is [TensorFlow guide, Distributed training]
  dlrun_run python examples/tensorflow-ps/train.py --steps 60
  ;;
worker)
  export TF_CONFIG
  TF_CONFIG='{"cluster": {"worker": ['"$(dlrun_endpoints 0 1 1 '"')"'], "ps": ['"$(dlrun_endpoints 1 1 1 '"')"'], "chief": ['"$(dlrun_endpoints 2 1 1 '"')"']}, "task": {"type": "worker", "index": '"$DLRUN_RANK"'}}' # all tasks in order of rank, and which one this is [TensorFlow guide, Distributed training]
  dlrun_run python examples/tensorflow-ps/train.py --steps 60
  ;;
chief)
  export TF_CONFIG
  TF_CONFIG='{"cluster": {"worker": ['"$(dlrun_endpoints 0 1 1 '"')"'], "ps": ['"$(dlrun_endpoints 1 1 1 '"')"'], "chief": ['"$(dlrun_endpoints 2 1 1 '"')"']}, "task": {"type": "chief", "index": '"$DLRUN_RANK"'}}' # all tasks in order of rank, and which one this is [TensorFlow guide, Distributed training]
  dlrun_run python examples/tensorflow-ps/train.py --steps 60
  ;;
esac
