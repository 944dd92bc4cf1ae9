dlrun_take_ports 20000 29999 1 # from, to, how many: DLRUN_MASTER_PORT is the first
export OMP_NUM_THREADS=8 # 8 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so a killed rank loses no lines [Python documentation, Command line and environment]
dlrun_write_environment # for the ranks that rank's agent starts
# 1 × agent, 1 on the first node
dlrun_launch dlrun_local 1 bash "$DLRUN_JOB_DIR/rank.sh" agent

case $1 in
rank)
  export HOROVOD_CONTROLLER=gloo # ranks are started by horovodrun [Horovod documentation, Environment variables]
  export HOROVOD_CPU_OPERATIONS=gloo # reductions in host memory use the controller's library [Horovod documentation, Environment variables]
  dlrun_run python examples/horovod/train.py --steps 60
  ;;
agent)
  dlrun_run dlrun_bare horovodrun -np 1 --hostfile "$(dlrun_hostfile 1 1)" --gloo --disable-cache bash "$DLRUN_JOB_DIR"/rank.sh rank
  ;;
esac
