take_ports() { # COUNT: a block of free ports, reserved against other jobs of yours on this node; sets port
take_ports 1
# 2 × rank, 1 on each node
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none bash "$DLRUN_JOB_DIR/rank.sh" rank </dev/null &

command=()
case $role in
rank)
  command=(python examples/chainermn/train.py --steps 60)
  ;;
esac
