# flux: --job-name=published
# flux: --output=logs/job.log
# flux: --nodes=2
# flux: --broker-opts=-Sbroker.quorum=1
# flux: --exclusive
# flux: --queue=pbatch
# flux: --time-limit=3600s
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export OMP_NUM_THREADS=24
export PYTHONUNBUFFERED=1
export NCCL_DEBUG=WARN
export NCCL_NET_GDR_LEVEL=3
export NCCL_CROSS_NIC=1
export NCCL_SOCKET_IFNAME=hsi0
export HSA_FORCE_FINE_GRAIN_PCIE=1
export FI_MR_CACHE_MONITOR=userfaultfd
export FI_CXI_DISABLE_HOST_REGISTER=1
export FI_CXI_DEFAULT_CQ_SIZE=131072
export FI_CXI_DEFAULT_TX_SIZE=2048
export FI_CXI_RX_MATCH_MODE=hybrid
export NCCL_MIN_NCHANNELS=24
dlrun_launch dlrun_flux flux --nodes=2 --ntasks=8 -o cpu-affinity=off -o gpu-affinity=off -o mpibind=off -o exit-on-error bash -p "$DLRUN_JOB_DIR/rank.sh" rank
