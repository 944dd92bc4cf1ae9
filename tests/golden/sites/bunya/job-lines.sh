#SBATCH --job-name=published
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=1
#SBATCH --ntasks=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=96
#SBATCH --gres=gpu:mi210:2
#SBATCH --mem=9536M
#SBATCH --account=a_group
#SBATCH --partition=gpu_rocm
#SBATCH --qos=gpu
#SBATCH --time=01:00:00
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export PYTHONUNBUFFERED=1
dlrun_launch srun --nodes=1 --ntasks=2 --ntasks-per-node=2 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
