#PBS -N published
#PBS -S /bin/bash
#PBS -o logs/job.log
#PBS -j oe
#PBS -r n
#PBS -l nodes=2:ppn=8:gpus=4
#PBS -l walltime=01:00:00
DLRUN_MASTER_ADDR="$first_host"
export PYTHONUNBUFFERED=1
start_ssh "$run_dir"/hosts 4 8 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" rank </dev/null &
