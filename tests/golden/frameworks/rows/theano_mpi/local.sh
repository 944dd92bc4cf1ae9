take_ports() { # COUNT: a block of free ports, reserved against other jobs of yours on this node; sets port
take_ports 1
# 2 × rank, 2 on each node
forward_names mpirun -np 2 --hostfile "$run_dir"/hostfile --map-by ppr:2:node --bind-to none bash "$DLRUN_JOB_DIR/rank.sh" rank </dev/null &

command=()
case $role in
rank)
  command=(python -u /software/theano-mpi/worker.py cuda"$DLRUN_LOCAL_RANK" avg nccl32 theanompi.models.alex_net AlexNet)
  ;;
esac
