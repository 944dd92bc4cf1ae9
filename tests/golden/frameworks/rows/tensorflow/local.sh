take_ports() { # COUNT: a block of free ports, reserved against other jobs of yours on this node; sets port
take_ports 1
# 1 × rank, 1 on each node
start_local 1 bash "$DLRUN_JOB_DIR/rank.sh" rank </dev/null &

command=()
case $role in
rank)
  export TF_CONFIG
  TF_CONFIG='{"cluster": {"worker": ['"$(endpoints 0 1 1 '"')"']}, "task": {"type": "worker", "index": '"$DLRUN_RANK"'}}' # all tasks in order of rank, and which one this is [TensorFlow guide, Distributed training]
  command=(python examples/tensorflow/train.py --steps 60)
  ;;
esac
