export OMP_NUM_THREADS=20 # 40 cores / 2 ranks [OpenMP 5.2, chapter 21]
export I_MPI_PIN=0 # ranks are started unbound; rank.sh binds them [Intel MPI Library Developer Reference]
export I_MPI_JOB_RESPECT_PROCESS_PLACEMENT=0 # makes -ppn take precedence over the layout of the scheduler [Intel MPI Library Developer Reference]
export FI_PROVIDER=psm2 # set by the spec, spec.yaml:26:28
dlrun_launch mpiexec.hydra -f "$DLRUN_HOSTS" -ppn 2 -n 512 bash -p "$DLRUN_JOB_DIR/rank.sh" rank

export HOROVOD_CONTROLLER=mpi # ranks are started by intelmpi [Horovod documentation, Environment variables]
export HOROVOD_CPU_OPERATIONS=mpi # reductions in host memory use the controller's library [Horovod documentation, Environment variables]
dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run python tf_cnn_benchmarks.py --model=resnet50 --device=cpu --variable_update=horovod --num_intra_threads=20 --num_inter_threads=2
