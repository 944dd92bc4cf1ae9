dlrun_launch dlrun_openmpi 4 mpirun -np 64 --hostfile "$DLRUN_HOSTS"-x4 --map-by ppr:4:node --bind-to none \
  bash -p "$DLRUN_JOB_DIR/rank.sh" rank

export HOROVOD_CONTROLLER=mpi # ranks are started by openmpi [Horovod documentation, Environment variables]
export HOROVOD_CPU_OPERATIONS=mpi # reductions in host memory use the controller's library [Horovod documentation, Environment variables]
dlrun_run python pytorch_imagenet_resnet50.py --batch-size 32
