#PBS -N published
#PBS -S /bin/bash
#PBS -o logs/job.log
#PBS -j oe
#PBS -k doe
#PBS -r n
#PBS -l select=2:mpiprocs=1:ompthreads=72
#PBS -l place=scatter
#PBS -q short-g
#PBS -W group_list=gw13
#PBS -l walltime=01:30:00
module load nvidia/25.9 nv-hpcx/25.9
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export OMP_NUM_THREADS=72
export PYTHONUNBUFFERED=1
export NCCL_DEBUG=WARN
dlrun_launch dlrun_openmpi 1 mpirun -np 2 --hostfile "$DLRUN_HOSTS"-x1 --map-by ppr:1:node --bind-to none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
