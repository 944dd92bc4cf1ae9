#SBATCH --job-name=published
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=8
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=12
#SBATCH --partition=normal-arm
#SBATCH --time=01:00:00
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export OMP_NUM_THREADS=12
export PYTHONUNBUFFERED=1
dlrun_launch dlrun_openmpi 4 mpirun -np 8 --hostfile "$DLRUN_HOSTS"-x4 --map-by ppr:4:node --bind-to none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
