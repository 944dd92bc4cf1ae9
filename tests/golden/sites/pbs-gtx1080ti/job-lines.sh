#PBS -N published
#PBS -S /bin/bash
#PBS -o logs/job.log
#PBS -j oe
#PBS -k doe
#PBS -r n
#PBS -l select=2:mpiprocs=4:ngpus=4
#PBS -l place=scatter
#PBS -l walltime=01:00:00
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export PYTHONUNBUFFERED=1
dlrun_launch dlrun_ssh "$DLRUN_HOSTS" 4 8 1 ssh bash -p "$DLRUN_JOB_DIR/rank.sh" rank
