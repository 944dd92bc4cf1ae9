#SBATCH --job-name=published
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=4
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=4
#SBATCH --gpus-per-task=l40s:1
#SBATCH --mem=30517M
#SBATCH --partition=long
#SBATCH --time=00:15:00
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export PYTHONUNBUFFERED=1
dlrun_launch srun --nodes=2 --ntasks=4 --ntasks-per-node=2 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none --gres-flags=allow-task-sharing bash -p "$DLRUN_JOB_DIR/rank.sh" rank
