dlrun_take_ports 20000 29999 1 # from, to, how many: DLRUN_MASTER_PORT is the first
export OMP_NUM_THREADS=8 # 8 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so a killed rank loses no lines [Python documentation, Command line and environment]
# 1 × rank, 1 on each node
dlrun_launch dlrun_openmpi 1 mpirun -np 1 --hostfile "$DLRUN_HOSTS"-x1 --map-by ppr:1:node --bind-to none bash \
  "$DLRUN_JOB_DIR/rank.sh" rank

dlrun_run python examples/mpi/train.py --steps 60
