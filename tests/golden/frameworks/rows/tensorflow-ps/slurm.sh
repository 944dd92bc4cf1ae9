dlrun_take_ports 20000 29999 3 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first
# 2 × ps, 1 on each node
dlrun_service srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --overlap bash -p "$DLRUN_JOB_DIR/rank.sh" ps
# 2 × worker, 1 on each node
dlrun_service srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --overlap bash -p "$DLRUN_JOB_DIR/rank.sh" worker
# 1 × chief, on the first node
dlrun_launch srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --overlap --nodelist="$DLRUN_FIRST_HOST" bash -p "$DLRUN_JOB_DIR/rank.sh" chief

export DLRUN_SUFFIX=-ib # makes the name of a host that of its address on the fabric
case $1 in
ps)
  export TF_CONFIG
  TF_CONFIG='{"cluster": {"worker": ['"$(dlrun_endpoints 0 1 2 '"')"'], "ps": ['"$(dlrun_endpoints 1 1 2 '"')"'], "chief": ['"$(dlrun_endpoints 2 1 1 '"')"']}, "task": {"type": "ps", "index": '"$DLRUN_RANK"'}}' # the endpoints of all tasks in order of rank, and the type and index of this one [TensorFlow guide, Distributed training]
  dlrun_run python examples/tensorflow-ps/train.py --steps 60
  ;;
worker)
  export TF_CONFIG
  TF_CONFIG='{"cluster": {"worker": ['"$(dlrun_endpoints 0 1 2 '"')"'], "ps": ['"$(dlrun_endpoints 1 1 2 '"')"'], "chief": ['"$(dlrun_endpoints 2 1 1 '"')"']}, "task": {"type": "worker", "index": '"$DLRUN_RANK"'}}' # the endpoints of all tasks in order of rank, and the type and index of this one [TensorFlow guide, Distributed training]
  export TF_NUM_INTRAOP_THREADS=48 # 48 compute threads on 48 cores [tensorflow core/common_runtime/process_util.cc]
  export TF_NUM_INTEROP_THREADS=2 # operations that run concurrently: one per NUMA node, at most 2 [tensorflow core/common_runtime/process_util.cc]
  export KMP_BLOCKTIME=1 # idle threads of Intel's OpenMP sleep after 1 ms, because other threads of the rank need the cores [pytorch torch/backends/xeon/run_cpu.py]
  dlrun_fit_cores OMP_NUM_THREADS TF_NUM_INTRAOP_THREADS # to what was granted, if that is not the plan's
  dlrun_run python examples/tensorflow-ps/train.py --steps 60
  ;;
chief)
  export TF_CONFIG
  TF_CONFIG='{"cluster": {"worker": ['"$(dlrun_endpoints 0 1 2 '"')"'], "ps": ['"$(dlrun_endpoints 1 1 2 '"')"'], "chief": ['"$(dlrun_endpoints 2 1 1 '"')"']}, "task": {"type": "chief", "index": '"$DLRUN_RANK"'}}' # the endpoints of all tasks in order of rank, and the type and index of this one [TensorFlow guide, Distributed training]
  dlrun_run python examples/tensorflow-ps/train.py --steps 60
  ;;
esac
