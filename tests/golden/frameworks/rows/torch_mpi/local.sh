dlrun_launch dlrun_openmpi 1 mpirun -np 1 --hostfile "$DLRUN_HOSTS"-x1 --map-by ppr:1:node --bind-to none \
  bash "$DLRUN_JOB_DIR/rank.sh" rank

dlrun_run luajit train.lua
