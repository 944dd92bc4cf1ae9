take_ports 3
export OMP_NUM_THREADS=8 # 8 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # lines reach the log when they are printed, and a killed rank loses none [Python documentation, Command line and environment]
export DLRUN_LAUNCHED # when, in ns by this node's clock, so that after a failure those of others can be put right
# 1 × ps, 1 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_local 1 bash "$DLRUN_JOB_DIR/rank.sh" ps </dev/null &
# 1 × worker, 1 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_local 1 bash "$DLRUN_JOB_DIR/rank.sh" worker </dev/null &
# 1 × chief, 1 on the first node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_local 1 bash "$DLRUN_JOB_DIR/rank.sh" chief </dev/null &

command=()
case $role in
ps)
  export TF_CONFIG
  TF_CONFIG='{"cluster": {"worker": ['"$(endpoints 0 1 1 '"')"'], "ps": ['"$(endpoints 1 1 1 '"')"'], "chief": ['"$(endpoints 2 1 1 '"')"']}, "task": {"type": "ps", "index": '"$DLRUN_RANK"'}}' # all tasks in order of rank, and which one this is [TensorFlow guide, Distributed training]
  command=(python examples/tensorflow-ps/train.py --steps 60)
  ;;
worker)
  export TF_CONFIG
  TF_CONFIG='{"cluster": {"worker": ['"$(endpoints 0 1 1 '"')"'], "ps": ['"$(endpoints 1 1 1 '"')"'], "chief": ['"$(endpoints 2 1 1 '"')"']}, "task": {"type": "worker", "index": '"$DLRUN_RANK"'}}' # all tasks in order of rank, and which one this is [TensorFlow guide, Distributed training]
  command=(python examples/tensorflow-ps/train.py --steps 60)
  ;;
chief)
  export TF_CONFIG
  TF_CONFIG='{"cluster": {"worker": ['"$(endpoints 0 1 1 '"')"'], "ps": ['"$(endpoints 1 1 1 '"')"'], "chief": ['"$(endpoints 2 1 1 '"')"']}, "task": {"type": "chief", "index": '"$DLRUN_RANK"'}}' # all tasks in order of rank, and which one this is [TensorFlow guide, Distributed training]
  command=(python examples/tensorflow-ps/train.py --steps 60)
  ;;
esac
