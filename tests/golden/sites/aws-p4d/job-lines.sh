#SBATCH --job-name=published
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=16
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --partition=compute-gpu
#SBATCH --time=01:00:00
#SBATCH --exclusive
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export OMP_NUM_THREADS=6
export PYTHONUNBUFFERED=1
export NCCL_DEBUG=WARN
dlrun_launch srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none --mpi=pmix bash -p "$DLRUN_JOB_DIR/rank.sh" rank
