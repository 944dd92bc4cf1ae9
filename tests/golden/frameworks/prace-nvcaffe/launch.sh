export NCCL_DEBUG=WARN # logs an explicit message when a call fails, and nothing else [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export NCCL_IB_HCA='=mlx5_0,mlx5_1,mlx5_2,mlx5_3' # site dgx-1v sets it: Select compute HCAs and keep storage/Ethernet HCAs out. Without '=' the token is a prefix: mlx5_1 also matches mlx5_10..19 [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
dlrun_launch dlrun_openmpi 1 mpirun -np 6 --hostfile "$DLRUN_HOSTS"-x1 --map-by ppr:1:node --bind-to none \
  bash -p "$DLRUN_JOB_DIR/rank.sh" rank

dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run caffe train --solver=models/resnet50/solver.prototxt --gpu=all
