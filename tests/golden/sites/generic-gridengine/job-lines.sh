#$ -N published
#$ -S /bin/bash
#$ -cwd
#$ -o logs/job.log
#$ -j y
#$ -r n
#$ -l h_rt=3600
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export PYTHONUNBUFFERED=1
dlrun_launch dlrun_ssh "$DLRUN_HOSTS" 1 1 2 dlrun_qrsh qrsh bash -p "$DLRUN_JOB_DIR/rank.sh" rank
