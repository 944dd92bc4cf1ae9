take_ports 1
export OMP_NUM_THREADS=20 # 40 cores / 2 ranks [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # lines reach the log when they are printed, and a killed rank loses none [Python documentation, Command line and environment]
export I_MPI_PIN=0 # ranks start unbound; rank.sh binds them [Intel MPI Library Developer Reference]
export I_MPI_JOB_RESPECT_PROCESS_PLACEMENT=0 # -ppn counts, whatever the scheduler's own layout [Intel MPI Library Developer Reference]
export FI_PROVIDER=psm2 # set by the spec, spec.yaml:26:28
export DLRUN_LAUNCHED # when, in ns by this node's clock, so that after a failure those of others can be put right
# 512 × rank, 2 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
mpiexec.hydra -f "$run_dir"/hosts -ppn 2 -n 512 bash "$DLRUN_JOB_DIR/rank.sh" rank </dev/null &

command=()
case $role in
rank)
  export HOROVOD_CONTROLLER=mpi # ranks are started by intelmpi [Horovod documentation, Environment variables]
  export HOROVOD_CPU_OPERATIONS=mpi # sums in host memory go the way the ranks met [Horovod documentation, Environment variables]
  command=(python tf_cnn_benchmarks.py --model=resnet50 --device=cpu --variable_update=horovod --num_intra_threads=20 --num_inter_threads=2)
  ;;
esac
