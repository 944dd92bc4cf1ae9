#SBATCH --job-name=published
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=1
#SBATCH --ntasks=8
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH -A pawsey0807-gpu
#SBATCH --partition=gpu
#SBATCH --time=00:10:00
#SBATCH --exclusive
module load craype-accel-amd-gfx90a
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export OMP_NUM_THREADS=8
export PYTHONUNBUFFERED=1
export NCCL_DEBUG=WARN
export HSA_FORCE_FINE_GRAIN_PCIE=1
export MPICH_OFI_NIC_POLICY=NUMA
dlrun_launch srun --nodes=1 --ntasks=8 --ntasks-per-node=8 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
