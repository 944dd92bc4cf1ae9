#SBATCH --job-name=published
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=8
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --gres=gpu:4
#SBATCH --partition=gpu
#SBATCH --time=01:00:00
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export PYTHONUNBUFFERED=1
export NCCL_DEBUG=WARN
dlrun_launch dlrun_openmpi 4 mpirun -np 8 --hostfile "$DLRUN_HOSTS"-x4 --map-by ppr:4:node --bind-to none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
