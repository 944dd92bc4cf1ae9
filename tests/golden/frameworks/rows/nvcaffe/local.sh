take_ports 1
export OMP_NUM_THREADS=8 # 8 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # lines reach the log when they are printed, and a killed rank loses none [Python documentation, Command line and environment]
export DLRUN_LAUNCHED # when, in ns by this node's clock, so that after a failure those of others can be put right
# 1 × rank, 1 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
forward_names mpirun -np 1 --hostfile "$run_dir"/hostfile --map-by ppr:1:node --bind-to none bash "$DLRUN_JOB_DIR/rank.sh" rank </dev/null &

command=()
case $role in
rank)
  command=(caffe train --solver=solver.prototxt --gpu=all)
  ;;
esac
