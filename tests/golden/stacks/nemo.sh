dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first
export OMP_NUM_THREADS=14 # 112 cores / 8 ranks [OpenMP 5.2, chapter 21]
export NVIDIA_VISIBLE_DEVICES=all # makes enroot mount NVIDIA GPUs and libraries into the container [enroot, Standard Hooks, 98-nvidia.sh]
export NVIDIA_DRIVER_CAPABILITIES=compute,utility # makes enroot mount NVIDIA GPUs and libraries into the container [enroot, Standard Hooks, 98-nvidia.sh]
export NCCL_DEBUG=WARN # logs an explicit message when a call fails, and nothing else [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export NCCL_IB_HCA='=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11' # site dgx-h100 sets it: The eight compute HCAs (GPU 0..7 in this order); the others are storage/management. Needed only if NCCL picks a wrong one. [DGX H100] [NVIDIA DGX H100 User Guide, Table 6 Network Modules (https://www.easymanua.ls/nvidia/dgx-h100/manual?p=19)]
dlrun_log 'pyxis imports the image on each node by itself: it is not compared with the first node'
dlrun_launch srun --nodes=4 --ntasks=32 --ntasks-per-node=8 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --container-image=/lustre/images/automodel.sqsh \
  --container-mounts="$DLRUN_JOB_DIR":"$DLRUN_JOB_DIR",/home/ada/project:/home/ada/project \
  --container-workdir=/opt/Automodel --container-env=NVIDIA_VISIBLE_DEVICES,NVIDIA_DRIVER_CAPABILITIES \
  bash -p "$DLRUN_JOB_DIR/rank.sh" rank

export MASTER_ADDR="$DLRUN_MASTER_ADDR" # rank 0's node, by the site's address rule [PyTorch documentation, torch.distributed]
export MASTER_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on rank 0's node [PyTorch documentation, torch.distributed]
export WORLD_SIZE=32 # 4 nodes × 8 ranks [PyTorch documentation, torch.distributed]
export RANK="$DLRUN_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_RANK="$DLRUN_LOCAL_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_WORLD_SIZE="$DLRUN_LOCAL_SIZE" # ranks on this node [PyTorch documentation, torch.distributed]
export GROUP_RANK="$DLRUN_NODE_RANK" # node index; torchrun's name for it [PyTorch documentation, torch.distributed]
dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_warn_program USR1 USR2 all ignore # when USR2 comes, the program gets USR1, once
dlrun_run python -m nemo_automodel.cli.app examples/llm_finetune/llama3_2/llama3_2_1b_squad.yaml
