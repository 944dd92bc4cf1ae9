dlrun_launch srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" rank

export DLRUN_SUFFIX=-ib # makes the name of a host that of its address on the fabric
export TF_USE_LEGACY_KERAS=1 # Keras 3 fails under MultiWorkerMirroredStrategy; tf_keras does not [tf_keras README]
export TF_CONFIG
TF_CONFIG='{"cluster": {"worker": ['"$(dlrun_endpoints 0 1 2 '"')"']}, "task": {"type": "worker", "index": '"$DLRUN_RANK"'}}' # the endpoints of all tasks in order of rank, and the type and index of this one [TensorFlow guide, Distributed training]
export TF_NUM_INTRAOP_THREADS=48 # 48 compute threads on 48 cores [tensorflow core/common_runtime/process_util.cc]
export TF_NUM_INTEROP_THREADS=2 # operations that run concurrently: one per NUMA node, at most 2 [tensorflow core/common_runtime/process_util.cc]
export KMP_BLOCKTIME=1 # idle threads of Intel's OpenMP sleep after 1 ms, because other threads of the rank need the cores [pytorch torch/backends/xeon/run_cpu.py]
dlrun_fit_cores OMP_NUM_THREADS TF_NUM_INTRAOP_THREADS # to what was granted, if that is not the plan's
dlrun_run python examples/keras/train.py --steps 60
