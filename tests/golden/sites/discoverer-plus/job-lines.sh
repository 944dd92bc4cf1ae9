#SBATCH --job-name=published
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=1
#SBATCH --ntasks=8
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=26
#SBATCH --gres=gpu:8
#SBATCH --mem=1843200M
#SBATCH --account=ehpc-aif-2026pg01-905
#SBATCH --partition=common
#SBATCH --qos=ehpc-aif-2026pg01-905
#SBATCH --time=04:00:00
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export PYTHONUNBUFFERED=1
export NCCL_DEBUG=WARN
dlrun_launch srun --nodes=1 --ntasks=8 --ntasks-per-node=8 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none --mpi=pmix bash -p "$DLRUN_JOB_DIR/rank.sh" rank
