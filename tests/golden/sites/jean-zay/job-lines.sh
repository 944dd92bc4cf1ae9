#SBATCH --job-name=published
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=16
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=8
#SBATCH --gres=gpu:8
#SBATCH --account=six@a100
#SBATCH --partition=gpu_p5
#SBATCH --qos=qos_gpu-gc
#SBATCH --constraint=a100
#SBATCH --time=00:30:00
#SBATCH --hint=nomultithread
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export PYTHONUNBUFFERED=1
dlrun_launch srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
