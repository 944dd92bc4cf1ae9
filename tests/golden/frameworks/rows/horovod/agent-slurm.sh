dlrun_write_environment # for the ranks that the framework's own agent starts
# 1 × agent, on the first node
dlrun_launch srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --overlap --nodelist="$DLRUN_FIRST_HOST" bash -p "$DLRUN_JOB_DIR/rank.sh" agent

case $1 in
rank)
  export HOROVOD_CONTROLLER=gloo # ranks are started by horovodrun [Horovod documentation, Environment variables]
  export HOROVOD_CPU_OPERATIONS=gloo # reductions in host memory use the controller's library [Horovod documentation, Environment variables]
  dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
  dlrun_run python examples/horovod/train.py --steps 60
  ;;
agent)
  dlrun_run dlrun_without_environment horovodrun -np 2 --hostfile "$(dlrun_hostfile 1 2)" --gloo --disable-cache --network-interfaces ib0 bash -p "$DLRUN_JOB_DIR"/rank.sh rank
  ;;
esac
