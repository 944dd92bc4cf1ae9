export OMP_NUM_THREADS=24 # 48 cores / 2 ranks [OpenMP 5.2, chapter 21]
dlrun_launch srun --nodes=2 --ntasks=4 --ntasks-per-node=2 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" rank

export DDL_OPTIONS='-mode p:2x2x1x1' # 2 ranks on each of 2 hosts, in one rack [IBM WML CE documentation, Using the ddlrun tool]
dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run python /software/ddl/train.py
