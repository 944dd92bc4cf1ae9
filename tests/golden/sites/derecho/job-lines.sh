#PBS -N published
#PBS -S /bin/bash
#PBS -o logs/job.log
#PBS -j oe
#PBS -k doe
#PBS -r n
#PBS -l select=8:ncpus=64:mpiprocs=4:ngpus=4:mem=457763mb
#PBS -l place=scatter
#PBS -q main
#PBS -A NAML0001
#PBS -l walltime=12:00:00
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
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
dlrun_launch mpiexec -n 32 --ppn 4 --hostfile "$DLRUN_HOSTS" --cpu-bind none --no-transfer bash -p "$DLRUN_JOB_DIR/rank.sh" rank
