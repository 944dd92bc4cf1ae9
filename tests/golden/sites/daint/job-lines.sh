#SBATCH --job-name=published
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=8
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=72
#SBATCH --gpus-per-task=1
#SBATCH -A g000
#SBATCH --partition=normal
#SBATCH --time=00:30:00
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export OMP_NUM_THREADS=72
export PYTHONUNBUFFERED=1
export NCCL_DEBUG=WARN
export NCCL_NET_GDR_LEVEL=PHB
export NCCL_CROSS_NIC=1
export FI_MR_CACHE_MONITOR=userfaultfd
export FI_CXI_DISABLE_HOST_REGISTER=1
export FI_CXI_DEFAULT_CQ_SIZE=131072
export FI_CXI_DEFAULT_TX_SIZE=16384
export FI_CXI_RX_MATCH_MODE=software
export MPICH_GPU_SUPPORT_ENABLED=0
export NCCL_NET='AWS Libfabric'
export NCCL_PROTO='^LL128'
dlrun_launch srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
