#PBS -N published
#PBS -S /bin/bash
#PBS -o logs/job.log
#PBS -j oe
#PBS -k doe
#PBS -r n
#PBS -l select=1:ncpus=16:mpiprocs=1:mem=122070mb
#PBS -l place=scatter
#PBS -q normal
#PBS -P 11002670
#PBS -l walltime=48:00:00
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export PYTHONUNBUFFERED=1
dlrun_launch dlrun_ssh "$DLRUN_HOSTS" 1 1 1 ssh bash -p "$DLRUN_JOB_DIR/rank.sh" rank
