export OMP_NUM_THREADS=24 # 48 cores / 2 ranks [OpenMP 5.2, chapter 21]
dlrun_launch srun --nodes=2 --ntasks=4 --ntasks-per-node=2 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" rank

dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run python -u /software/theano-mpi/worker.py cuda"$DLRUN_LOCAL_RANK" avg nccl32 theanompi.models.alex_net AlexNet
