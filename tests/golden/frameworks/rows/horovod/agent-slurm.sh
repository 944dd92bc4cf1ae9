take_ports 1
export OMP_NUM_THREADS=48 # 48 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # lines reach the log when they are printed, and a killed rank loses none [Python documentation, Command line and environment]
export DLRUN_LAUNCHED # when, in ns by this node's clock, so that after a failure those of others can be put right
# 1 × agent, 1 on the first node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none --overlap --nodelist="$first_host" bash "$DLRUN_JOB_DIR/rank.sh" agent </dev/null &

command=()
case $role in
rank)
  export HOROVOD_CONTROLLER=gloo # ranks are started by horovodrun [Horovod documentation, Environment variables]
  export HOROVOD_CPU_OPERATIONS=gloo # sums in host memory go the way the ranks met [Horovod documentation, Environment variables]
  command=(python examples/horovod/train.py --steps 60)
  ;;
agent)
  command=(bare horovodrun -np 2 --hostfile "$(hostfile 1 2)" --gloo --disable-cache --network-interfaces ib0 bash "$DLRUN_JOB_DIR"/rank.sh rank)
  ;;
esac
