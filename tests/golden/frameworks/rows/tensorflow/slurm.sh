dlrun_launch srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none bash "$DLRUN_JOB_DIR/rank.sh" rank

export DLRUN_SUFFIX=-ib # makes the name of a host that of its address on the fabric
export TF_CONFIG
TF_CONFIG='{"cluster": {"worker": ['"$(dlrun_endpoints 0 1 2 '"')"']}, "task": {"type": "worker", "index": '"$DLRUN_RANK"'}}' # all tasks in order of rank, and which one this is [TensorFlow guide, Distributed training]
export TF_NUM_INTRAOP_THREADS=48 # 48 compute threads on 48 cores [tensorflow core/common_runtime/process_util.cc]
export TF_NUM_INTEROP_THREADS=2 # operations side by side: one a NUMA node, at most 2 [tensorflow core/common_runtime/process_util.cc]
export KMP_BLOCKTIME=1 # idle threads of Intel's OpenMP sleep after 1 ms: other threads of the rank need its cores [pytorch torch/backends/xeon/run_cpu.py]
dlrun_run python examples/tensorflow/train.py --steps 60
