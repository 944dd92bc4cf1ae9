export OMP_NUM_THREADS=24 # 48 cores / 2 ranks [OpenMP 5.2, chapter 21]
dlrun_launch dlrun_openmpi 2 mpirun -np 4 --hostfile "$DLRUN_HOSTS"-x2 --map-by ppr:2:node --bind-to none \
  bash -p "$DLRUN_JOB_DIR/rank.sh" rank

export DDL_OPTIONS='-mode p:2x2x1x1' # 2 ranks on each of 2 hosts, in one rack [IBM WML CE documentation, Using the ddlrun tool]
dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run python /software/ddl/train.py
