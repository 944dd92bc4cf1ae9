export OMP_NUM_THREADS=23 # 48 cores / 2 ranks, 1 reserved for communication and data loading [OpenMP 5.2, chapter 21]
dlrun_launch srun --nodes=2 --ntasks=4 --ntasks-per-node=2 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" rank

export CCL_ATL_TRANSPORT=mpi # an MPI launcher starts the ranks [oneCCL documentation, Environment variables]
export CCL_WORKER_COUNT=1 # one per communication core of the rank [oneCCL documentation, Environment variables]
export CCL_WORKER_AFFINITY=23,47 # the communication cores of all ranks of a node [oneCCL documentation, Environment variables]
dlrun_fit_cores OMP_NUM_THREADS CCL_WORKER_AFFINITY # to what was granted, if that is not the plan's
dlrun_run ./program
