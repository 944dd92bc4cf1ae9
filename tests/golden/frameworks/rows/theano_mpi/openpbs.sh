export OMP_NUM_THREADS=24 # 48 cores / 2 ranks [OpenMP 5.2, chapter 21]
dlrun_launch dlrun_openmpi 2 mpirun -np 4 --hostfile "$DLRUN_HOSTS"-x2 --map-by ppr:2:node --bind-to none \
  bash -p "$DLRUN_JOB_DIR/rank.sh" rank

dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run python -u /software/theano-mpi/worker.py cuda"$DLRUN_LOCAL_RANK" avg nccl32 theanompi.models.alex_net AlexNet
