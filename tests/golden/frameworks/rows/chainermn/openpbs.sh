dlrun_launch dlrun_openmpi 1 mpirun -np 2 --hostfile "$DLRUN_HOSTS"-x1 --map-by ppr:1:node --bind-to none \
  bash "$DLRUN_JOB_DIR/rank.sh" rank

dlrun_run python examples/chainermn/train.py --steps 60
