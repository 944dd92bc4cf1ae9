export OMP_NUM_THREADS=24 # 48 cores / 2 ranks [OpenMP 5.2, chapter 21]
dlrun_launch srun --nodes=1 --ntasks=2 --ntasks-per-node=2 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" rank

export MASTER_ADDR="$DLRUN_MASTER_ADDR" # rank 0's node, by the site's address rule [PyTorch documentation, torch.distributed]
export MASTER_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on rank 0's node [PyTorch documentation, torch.distributed]
export WORLD_SIZE=2 # 1 node × 2 ranks [PyTorch documentation, torch.distributed]
export RANK="$DLRUN_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_RANK="$DLRUN_LOCAL_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_WORLD_SIZE="$DLRUN_LOCAL_SIZE" # ranks on this node [PyTorch documentation, torch.distributed]
export GROUP_RANK="$DLRUN_NODE_RANK" # node index; torchrun's name for it [PyTorch documentation, torch.distributed]
dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run python examples/digits/train.py --batch 32 --lr 0.15 --expect 0.95
