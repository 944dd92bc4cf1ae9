#$ -N published
#$ -S /bin/bash
#$ -cwd
#$ -o logs/job.log
#$ -j y
#$ -r n
#$ -l node_f=4
#$ -l h_rt=3600
module purge
module load openmpi/5.0.7-gcc
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export OMP_NUM_THREADS=48
export PYTHONUNBUFFERED=1
export NCCL_DEBUG=WARN
dlrun_launch dlrun_openmpi 4 mpirun -np 16 --hostfile "$DLRUN_HOSTS"-x4 --map-by ppr:4:node --bind-to none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
