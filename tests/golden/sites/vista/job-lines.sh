#SBATCH --job-name=published
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=4
#SBATCH --ntasks=576
#SBATCH --ntasks-per-node=144
#SBATCH --partition=gg
#SBATCH --time=01:00:00
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export OMP_NUM_THREADS=1
export PYTHONUNBUFFERED=1
export I_MPI_PIN=0
dlrun_launch ibrun -n 576 -o 0 bash -p "$DLRUN_JOB_DIR/rank.sh" rank
