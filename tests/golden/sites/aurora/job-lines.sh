#PBS -N published
#PBS -S /bin/bash
#PBS -o logs/job.log
#PBS -j oe
#PBS -k doe
#PBS -r n
#PBS -l select=2:mpiprocs=12:ompthreads=7
#PBS -l place=scatter
#PBS -q debug
#PBS -A Aurora_training
#PBS -l walltime=00:30:00
#PBS -l filesystems=home:flare
module load frameworks
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST.hsn.cm.aurora.alcf.anl.gov"
export OMP_NUM_THREADS=7
export PYTHONUNBUFFERED=1
export CCL_PROCESS_LAUNCHER=pmix
export CCL_ATL_TRANSPORT=mpi
export CCL_KVS_MODE=mpi
export CCL_WORKER_AFFINITY=42,43,44,45,46,47,94,95,96,97,98,99
export FI_MR_CACHE_MONITOR=userfaultfd
dlrun_launch mpiexec -n 24 --ppn 12 --hostfile "$DLRUN_HOSTS" --cpu-bind none --pmi=pmix --envall bash -p "$DLRUN_JOB_DIR/rank.sh" rank
