#SBATCH --job-name=published
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=576
#SBATCH --ntasks-per-node=288
#SBATCH --cpus-per-task=1
#SBATCH --account=t01
#SBATCH --partition=standard
#SBATCH --qos=standard
#SBATCH --time=00:20:00
#SBATCH --exclusive
#SBATCH --hint=nomultithread
#SBATCH --distribution=block:block
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export OMP_NUM_THREADS=1
export PYTHONUNBUFFERED=1
dlrun_launch srun --nodes=2 --ntasks=576 --ntasks-per-node=288 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
