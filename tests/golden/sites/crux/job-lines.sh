#PBS -N published
#PBS -S /bin/bash
#PBS -o logs/job.log
#PBS -j oe
#PBS -k doe
#PBS -r n
#PBS -l select=4:mpiprocs=64:ompthreads=4:system=crux
#PBS -l place=scatter
#PBS -q debug
#PBS -A Catalyst
#PBS -l walltime=00:10:00
#PBS -l filesystems=home:eagle
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export OMP_NUM_THREADS=4
export PYTHONUNBUFFERED=1
dlrun_launch mpiexec -n 256 --ppn 64 --hostfile "$DLRUN_HOSTS" --cpu-bind none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
