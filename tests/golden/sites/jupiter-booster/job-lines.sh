#SBATCH --job-name=published
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=8
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=72
#SBATCH --gres=gpu:4
#SBATCH --account=training
#SBATCH --partition=booster
#SBATCH --time=00:30:00
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export OMP_NUM_THREADS=72
export PYTHONUNBUFFERED=1
export NCCL_DEBUG=WARN
dlrun_launch srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
