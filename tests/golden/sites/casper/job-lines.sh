#PBS -N published
#PBS -S /bin/bash
#PBS -o logs/job.log
#PBS -j oe
#PBS -k doe
#PBS -r n
#PBS -l select=1:ncpus=8:mpiprocs=1:ngpus=1:mem=128gb
#PBS -l place=scatter
#PBS -q casper
#PBS -A NAML0001
#PBS -l walltime=04:00:00
#PBS -l gpu_type=a100
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export PYTHONUNBUFFERED=1
dlrun_launch dlrun_ssh "$DLRUN_HOSTS" 1 1 1 ssh bash -p "$DLRUN_JOB_DIR/rank.sh" rank
