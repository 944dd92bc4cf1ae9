dlrun_launch dlrun_openmpi 1 mpirun -np 1 --hostfile "$DLRUN_HOSTS"-x1 --map-by ppr:1:node --bind-to none \
  bash -p "$DLRUN_JOB_DIR/rank.sh" rank

dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run caffe train --solver=solver.prototxt --gpu=all
