take_ports 2
export OMP_NUM_THREADS=48 # 48 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # lines reach the log when they are printed, and a killed rank loses none [Python documentation, Command line and environment]
export DLRUN_LAUNCHED # when, in ns by this node's clock, so that after a failure those of others can be put right
# 2 × server, 1 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_ssh "$run_dir"/hosts 1 2 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" server </dev/null &
# 1 × driver, 1 on the first node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_ssh "$run_dir"/hosts-first 1 1 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" driver </dev/null &

command=()
case $role in
server)
  export TF_CONFIG
  TF_CONFIG='{"cluster": {"worker": ['"$(endpoints 0 1 2 '"')"'], "chief": ['"$(endpoints 1 1 1 '"')"']}, "task": {"type": "worker", "index": '"$DLRUN_RANK"'}}' # all tasks in order of rank, and which one this is [TensorFlow guide, Distributed training]
  command=(python examples/mesh_tensorflow/train.py --steps 60)
  ;;
driver)
  export TF_CONFIG
  TF_CONFIG='{"cluster": {"worker": ['"$(endpoints 0 1 2 '"')"'], "chief": ['"$(endpoints 1 1 1 '"')"']}, "task": {"type": "chief", "index": '"$DLRUN_RANK"'}}' # all tasks in order of rank, and which one this is [TensorFlow guide, Distributed training]
  command=(python examples/mesh_tensorflow/train.py --steps 60)
  ;;
esac
