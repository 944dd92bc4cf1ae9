take_ports 1
export PYTHONUNBUFFERED=1 # lines reach the log when they are printed, and a killed rank loses none [Python documentation, Command line and environment]
export DLRUN_LAUNCHED # when, in ns by this node's clock, so that after a failure those of others can be put right
# 64 × rank, 4 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
forward_names mpirun -np 64 --hostfile "$run_dir"/hostfile --map-by ppr:4:node --bind-to none bash "$DLRUN_JOB_DIR/rank.sh" rank </dev/null &

command=()
case $role in
rank)
  export HOROVOD_CONTROLLER=mpi # ranks are started by openmpi [Horovod documentation, Environment variables]
  export HOROVOD_CPU_OPERATIONS=mpi # sums in host memory go the way the ranks met [Horovod documentation, Environment variables]
  command=(python pytorch_imagenet_resnet50.py --batch-size 32)
  ;;
esac
