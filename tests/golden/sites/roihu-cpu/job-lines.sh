#SBATCH --job-name=published
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=192
#SBATCH --ntasks-per-node=96
#SBATCH --cpus-per-task=4
#SBATCH --exclusive
#SBATCH --account=project_2001234
#SBATCH --partition=medium
#SBATCH --time=00:30:00
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export OMP_NUM_THREADS=4
export PYTHONUNBUFFERED=1
dlrun_launch srun --nodes=2 --ntasks=192 --ntasks-per-node=96 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
