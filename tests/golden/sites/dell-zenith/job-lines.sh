#SBATCH --job-name=published
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=4
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=20
#SBATCH --time=01:00:00
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export OMP_NUM_THREADS=18
export PYTHONUNBUFFERED=1
export I_MPI_PIN=0
export I_MPI_JOB_RESPECT_PROCESS_PLACEMENT=0
dlrun_launch mpiexec.hydra -f "$DLRUN_HOSTS" -ppn 2 -n 4 bash -p "$DLRUN_JOB_DIR/rank.sh" rank
