#SBATCH --job-name=published
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=16
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=5
#SBATCH --gpus-per-node=8
#SBATCH --time=01:00:00
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export OMP_NUM_THREADS=5
export PYTHONUNBUFFERED=1
export NCCL_DEBUG=WARN
export NCCL_IB_HCA='=mlx5_0,mlx5_1,mlx5_2,mlx5_3'
dlrun_launch srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
