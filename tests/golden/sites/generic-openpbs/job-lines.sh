#PBS -N published
#PBS -S /bin/bash
#PBS -o logs/job.log
#PBS -j oe
#PBS -k doe
#PBS -r n
#PBS -l select=2:ncpus=1:mpiprocs=1:mem=10gb
#PBS -l place=scatter
#PBS -l walltime=01:00:00
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export PYTHONUNBUFFERED=1
dlrun_launch dlrun_ssh "$DLRUN_HOSTS" 1 2 1 ssh bash -p "$DLRUN_JOB_DIR/rank.sh" rank
