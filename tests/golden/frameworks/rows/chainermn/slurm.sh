dlrun_take_ports 20000 29999 1 # from, to, how many: DLRUN_MASTER_PORT is the first
export OMP_NUM_THREADS=48 # 48 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so a killed rank loses no lines [Python documentation, Command line and environment]
# 2 × rank, 1 on each node
dlrun_launch srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none bash "$DLRUN_JOB_DIR/rank.sh" rank

dlrun_run python examples/chainermn/train.py --steps 60
