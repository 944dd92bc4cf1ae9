#PBS -N published
#PBS -S /bin/bash
#PBS -o logs/job.log
#PBS -j oe
#PBS -k doe
#PBS -r n
#PBS -l select=1:ncpus=256:mpiprocs=8:ompthreads=16:ngpus=8
#PBS -l place=scatter
#PBS -q by-node
#PBS -A Project
#PBS -l walltime=01:00:00
#PBS -l filesystems=home:eagle
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export OMP_NUM_THREADS=16
export PYTHONUNBUFFERED=1
export NCCL_DEBUG=WARN
dlrun_launch dlrun_openmpi 8 mpirun -np 8 --hostfile "$DLRUN_HOSTS"-x8 --map-by ppr:8:node --bind-to none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
