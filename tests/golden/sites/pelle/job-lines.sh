#SBATCH --job-name=published
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=1
#SBATCH --ntasks=10
#SBATCH --ntasks-per-node=10
#SBATCH --cpus-per-task=6
#SBATCH --gpus-per-node=l40s:10
#SBATCH -A uppmax2023-2-25
#SBATCH --partition=gpu
#SBATCH --time=01:00:00
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export PYTHONUNBUFFERED=1
dlrun_launch srun --nodes=1 --ntasks=10 --ntasks-per-node=10 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
