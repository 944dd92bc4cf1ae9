#$ -N published
#$ -S /bin/bash
#$ -cwd
#$ -o logs/job.log
#$ -j y
#$ -r n
#$ -pe mpi 12
#$ -R y
#$ -l gpu=2
#$ -l mem=1024M
#$ -l h_rt=600
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export PYTHONUNBUFFERED=1
dlrun_launch dlrun_ssh "$DLRUN_HOSTS" 2 2 2 dlrun_qrsh qrsh bash -p "$DLRUN_JOB_DIR/rank.sh" rank
