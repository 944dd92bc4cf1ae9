take_ports 1
export OMP_NUM_THREADS=24 # 48 cores / 2 ranks [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # lines reach the log when they are printed, and a killed rank loses none [Python documentation, Command line and environment]
export DLRUN_LAUNCHED # when, in ns by this node's clock, so that after a failure those of others can be put right
# 4 × rank, 2 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
srun --nodes=2 --ntasks=4 --ntasks-per-node=2 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none bash "$DLRUN_JOB_DIR/rank.sh" rank </dev/null &

command=()
case $role in
rank)
  export DDL_OPTIONS='-mode p:2x2x1x1' # 2 ranks on each of 2 hosts, in one rack [IBM WML CE documentation, Using the ddlrun tool]
  command=(python /software/ddl/train.py)
  ;;
esac
