dlrun_launch srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none bash "$DLRUN_JOB_DIR/rank.sh" rank

dlrun_run luajit train.lua
