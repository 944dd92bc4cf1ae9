#PBS -N published
#PBS -S /bin/bash
#PBS -o logs/job.log
#PBS -j oe
#PBS -k doe
#PBS -r n
#PBS -l ncpus=96
#PBS -l ngpus=8
#PBS -l mem=764gb
#PBS -q gpuvolta
#PBS -P ab12
#PBS -l walltime=02:00:00
#PBS -l wd
#PBS -l storage=gdata/ab12+scratch/ab12
#PBS -l jobfs=200GB
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export PYTHONUNBUFFERED=1
export NCCL_DEBUG=WARN
dlrun_launch dlrun_openmpi 4 mpirun -np 8 --hostfile "$DLRUN_HOSTS"-x4 --map-by ppr:4:node --bind-to none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
