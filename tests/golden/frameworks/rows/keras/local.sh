dlrun_launch dlrun_local 1 bash -p "$DLRUN_JOB_DIR/rank.sh" rank

export TF_USE_LEGACY_KERAS=1 # Keras 3 fails under MultiWorkerMirroredStrategy; tf_keras does not [tf_keras README]
export TF_CONFIG
TF_CONFIG='{"cluster": {"worker": ['"$(dlrun_endpoints 0 1 1 '"')"']}, "task": {"type": "worker", "index": '"$DLRUN_RANK"'}}' # the endpoints of all tasks in order of rank, and the type and index of this one [TensorFlow guide, Distributed training]
export TF_NUM_INTRAOP_THREADS=8 # 8 compute threads on 8 cores [tensorflow core/common_runtime/process_util.cc]
export TF_NUM_INTEROP_THREADS=1 # operations that run concurrently: one per NUMA node, at most 2 [tensorflow core/common_runtime/process_util.cc]
export KMP_BLOCKTIME=1 # idle threads of Intel's OpenMP sleep after 1 ms, because other threads of the rank need the cores [pytorch torch/backends/xeon/run_cpu.py]
dlrun_fit_cores OMP_NUM_THREADS TF_NUM_INTRAOP_THREADS # to what was granted, if that is not the plan's
dlrun_run python examples/keras/train.py --steps 60
