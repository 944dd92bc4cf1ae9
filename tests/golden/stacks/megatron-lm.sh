dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first
export OMP_NUM_THREADS=14 # 112 cores / 8 ranks [OpenMP 5.2, chapter 21]
export NCCL_DEBUG=WARN # logs an explicit message when a call fails, and nothing else [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export NCCL_IB_HCA='=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11' # site dgx-h100 sets it: The eight compute HCAs (GPU 0..7 in this order); the others are storage/management. Needed only if NCCL picks a wrong one. [DGX H100] [NVIDIA DGX H100 User Guide, Table 6 Network Modules (https://www.easymanua.ls/nvidia/dgx-h100/manual?p=19)]
export DLRUN_DATA_PILE=/lustre/data/pile # data set `pile`: from the spec
export CUDA_DEVICE_MAX_CONNECTIONS=1 # set by the spec, spec.yaml:10:44
dlrun_expect_image /lustre/images/pytorch-25.01.sif # the same on each node
dlrun_launch srun --nodes=4 --ntasks=32 --ntasks-per-node=8 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" rank

dlrun_continue_wandb # rank 0 sets WANDB_RUN_ID, unless it is set: all runs of this job continue one W&B run
export MASTER_ADDR="$DLRUN_MASTER_ADDR" # rank 0's node, by the site's address rule [PyTorch documentation, torch.distributed]
export MASTER_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on rank 0's node [PyTorch documentation, torch.distributed]
export WORLD_SIZE=32 # 4 nodes × 8 ranks [PyTorch documentation, torch.distributed]
export RANK="$DLRUN_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_RANK="$DLRUN_LOCAL_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_WORLD_SIZE="$DLRUN_LOCAL_SIZE" # ranks on this node [PyTorch documentation, torch.distributed]
export GROUP_RANK="$DLRUN_NODE_RANK" # node index; torchrun's name for it [PyTorch documentation, torch.distributed]
dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_show_inside OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_IB_HCA DLRUN_DATA_PILE CUDA_DEVICE_MAX_CONNECTIONS MASTER_ADDR MASTER_PORT WORLD_SIZE RANK LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK # the image may have set some of them itself
dlrun_in_container --nv --bind "$DLRUN_JOB_DIR" --bind /home/ada/project --bind /lustre/data/pile --pwd /home/ada/project /lustre/images/pytorch-25.01.sif # the command runs in this image
dlrun_run python pretrain_gpt.py --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 1536 --data-path /lustre/data/pile/pile_text_document --save /lustre/runs/gpt3 --load /lustre/runs/gpt3
