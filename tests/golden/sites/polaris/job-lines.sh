#PBS -N published
#PBS -S /bin/bash
#PBS -o logs/job.log
#PBS -j oe
#PBS -k doe
#PBS -r n
#PBS -l select=10:mpiprocs=4:ompthreads=8:system=polaris
#PBS -l place=scatter
#PBS -q prod
#PBS -A alcf_training
#PBS -l walltime=00:30:00
#PBS -l filesystems=home:eagle
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export OMP_NUM_THREADS=8
export PYTHONUNBUFFERED=1
export NCCL_DEBUG=WARN
export NCCL_NET_GDR_LEVEL=PHB
export NCCL_CROSS_NIC=1
export FI_MR_CACHE_MONITOR=userfaultfd
export FI_CXI_DISABLE_HOST_REGISTER=1
export FI_CXI_DEFAULT_CQ_SIZE=131072
export FI_CXI_DEFAULT_TX_SIZE=2048
export FI_CXI_RX_MATCH_MODE=hybrid
export MPICH_GPU_SUPPORT_ENABLED=0
export NCCL_NET='AWS Libfabric'
export NCCL_COLLNET_ENABLE=1
export TMPDIR=/tmp
dlrun_launch mpiexec -n 40 --ppn 4 --hostfile "$DLRUN_HOSTS" --cpu-bind none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
