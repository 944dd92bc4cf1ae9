#PBS -N published
#PBS -S /bin/bash
#PBS -o logs/job.log
#PBS -j oe
#PBS -k doe
#PBS -r n
#PBS -l select=2:mpiprocs=8:ompthreads=12
#PBS -l place=scatter
#PBS -q rt_HF
#PBS -P grpname
#PBS -l walltime=01:00:00
module load hpcx
DLRUN_MASTER_ADDR="$(hostname -i | cut -d ' ' -f 1)"
export OMP_NUM_THREADS=12
export PYTHONUNBUFFERED=1
export NCCL_DEBUG=WARN
dlrun_launch dlrun_openmpi 8 mpirun -np 16 --hostfile "$DLRUN_HOSTS"-x8 --map-by ppr:8:node --bind-to none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
