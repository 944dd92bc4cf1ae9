take_ports() { # COUNT: a block of free ports, reserved against other jobs of yours on this node; sets port
take_ports 2
# 1 × server, 1 on each node
start_local 1 bash "$DLRUN_JOB_DIR/rank.sh" server </dev/null &
# 1 × driver, 1 on the first node
start_local 1 bash "$DLRUN_JOB_DIR/rank.sh" driver </dev/null &

command=()
case $role in
server)
  export TF_CONFIG
  TF_CONFIG='{"cluster": {"worker": ['"$(endpoints 0 1 1 '"')"'], "chief": ['"$(endpoints 1 1 1 '"')"']}, "task": {"type": "worker", "index": '"$DLRUN_RANK"'}}' # all tasks in order of rank, and which one this is [TensorFlow guide, Distributed training]
  command=(python examples/mesh_tensorflow/train.py --steps 60)
  ;;
driver)
  export TF_CONFIG
  TF_CONFIG='{"cluster": {"worker": ['"$(endpoints 0 1 1 '"')"'], "chief": ['"$(endpoints 1 1 1 '"')"']}, "task": {"type": "chief", "index": '"$DLRUN_RANK"'}}' # all tasks in order of rank, and which one this is [TensorFlow guide, Distributed training]
  command=(python examples/mesh_tensorflow/train.py --steps 60)
  ;;
esac
