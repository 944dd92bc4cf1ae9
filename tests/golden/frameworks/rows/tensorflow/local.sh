# 1 × rank, 1 on each node
dlrun_launch dlrun_local 1 bash "$DLRUN_JOB_DIR/rank.sh" rank

export TF_CONFIG
TF_CONFIG='{"cluster": {"worker": ['"$(dlrun_endpoints 0 1 1 '"')"']}, "task": {"type": "worker", "index": '"$DLRUN_RANK"'}}' # all tasks in order of rank, and which one this is [TensorFlow guide, Distributed training]
dlrun_run python examples/tensorflow/train.py --steps 60
