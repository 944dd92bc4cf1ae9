#PBS -N published
#PBS -S /bin/bash
#PBS -o logs/job.log
#PBS -j oe
#PBS -k doe
#PBS -r n
#PBS -l select=2:mpiprocs=4:ompthreads=22:node_type=mi300a
#PBS -l place=scatter
#PBS -q test
#PBS -l walltime=00:10:00
module load rocm
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export OMP_NUM_THREADS=22
export PYTHONUNBUFFERED=1
export NCCL_DEBUG=WARN
export NCCL_NET_GDR_LEVEL=PHB
export NCCL_CROSS_NIC=1
export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3
export HSA_FORCE_FINE_GRAIN_PCIE=1
export FI_MR_CACHE_MONITOR=userfaultfd
export FI_CXI_DISABLE_HOST_REGISTER=1
export FI_CXI_DEFAULT_CQ_SIZE=131072
export FI_CXI_DEFAULT_TX_SIZE=2048
export FI_CXI_RX_MATCH_MODE=hybrid
export MPICH_OFI_NIC_POLICY=NUMA
dlrun_launch mpiexec -n 8 --ppn 4 --hostfile "$DLRUN_HOSTS" --cpu-bind none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
