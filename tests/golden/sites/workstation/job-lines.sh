export DLRUN_MASTER_ADDR="127.0.0.1"
export OMP_NUM_THREADS=1
export PYTHONUNBUFFERED=1
dlrun_launch dlrun_local 4 bash -p "$DLRUN_JOB_DIR/rank.sh" rank
