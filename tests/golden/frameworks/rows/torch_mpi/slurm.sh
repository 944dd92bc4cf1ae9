dlrun_launch srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" rank

dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run luajit train.lua
