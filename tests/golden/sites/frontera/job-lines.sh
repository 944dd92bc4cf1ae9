#SBATCH --job-name=published
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=4
#SBATCH --ntasks=224
#SBATCH --ntasks-per-node=56
#SBATCH --partition=normal
#SBATCH --time=01:30:00
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export OMP_NUM_THREADS=1
export PYTHONUNBUFFERED=1
export I_MPI_PIN=0
dlrun_launch ibrun -n 224 -o 0 bash -p "$DLRUN_JOB_DIR/rank.sh" rank
