export OMP_NUM_THREADS=14 # 112 cores / 8 ranks [OpenMP 5.2, chapter 21]
export NCCL_DEBUG=WARN # logs an explicit message when a call fails, and nothing else [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export NCCL_IB_HCA='=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11' # site dgx-h100 sets it: The eight compute HCAs (GPU 0..7 in this order); the others are storage/management. Needed only if NCCL picks a wrong one. [DGX H100] [NVIDIA DGX H100 User Guide, Table 6 Network Modules (https://www.easymanua.ls/nvidia/dgx-h100/manual?p=19)]
dlrun_launch dlrun_openmpi 8 mpirun -np 32 --hostfile "$DLRUN_HOSTS"-x8 --map-by ppr:8:node --bind-to none \
  bash -p "$DLRUN_JOB_DIR/rank.sh" rank

dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run ./train --steps 1000
