take_ports() { # COUNT: a block of free ports, reserved against other jobs of yours on this node; sets port
take_ports 1
# 512 × rank, 2 on each node
mpiexec.hydra -f "$run_dir"/hosts -ppn 2 -n 512 bash "$DLRUN_JOB_DIR/rank.sh" rank </dev/null &

command=()
case $role in
rank)
  export HOROVOD_CONTROLLER=mpi # ranks are started by intelmpi [Horovod documentation, Environment variables]
  export HOROVOD_CPU_OPERATIONS=mpi # sums in host memory go the way the ranks met [Horovod documentation, Environment variables]
  command=(python tf_cnn_benchmarks.py --model=resnet50 --device=cpu --variable_update=horovod --num_intra_threads=20 --num_inter_threads=2)
  ;;
esac
