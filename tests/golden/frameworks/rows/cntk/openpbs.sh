take_ports() { # COUNT: a block of free ports, reserved against other jobs of yours on this node; sets port
take_ports 1
# 2 × rank, 1 on each node
forward_names mpirun -np 2 --hostfile "$run_dir"/hostfile --map-by ppr:1:node --bind-to none bash "$DLRUN_JOB_DIR/rank.sh" rank </dev/null &

command=()
case $role in
rank)
  command=(python examples/cntk/train.py --steps 60)
  ;;
esac
