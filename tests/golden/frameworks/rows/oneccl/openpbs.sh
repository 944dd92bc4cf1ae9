export OMP_NUM_THREADS=23 # 48 cores / 2 ranks, 1 reserved for communication and data loading [OpenMP 5.2, chapter 21]
export I_MPI_PIN=0 # ranks are started unbound; rank.sh binds them [Intel MPI Library Developer Reference]
export I_MPI_JOB_RESPECT_PROCESS_PLACEMENT=0 # makes -ppn take precedence over the layout of the scheduler [Intel MPI Library Developer Reference]
dlrun_launch mpiexec.hydra -f "$DLRUN_HOSTS" -ppn 2 -n 4 bash -p "$DLRUN_JOB_DIR/rank.sh" rank

export CCL_ATL_TRANSPORT=mpi # an MPI launcher starts the ranks [oneCCL documentation, Environment variables]
export CCL_WORKER_COUNT=1 # one per communication core of the rank [oneCCL documentation, Environment variables]
export CCL_WORKER_AFFINITY=23,47 # the communication cores of all ranks of a node [oneCCL documentation, Environment variables]
dlrun_fit_cores OMP_NUM_THREADS CCL_WORKER_AFFINITY # to what was granted, if that is not the plan's
dlrun_run ./program
