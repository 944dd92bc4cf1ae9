#!/bin/bash
# chunks, each process (launcher hydra starts it, unbound, as rank.sh ROLE): who it is, its cores, variables and command.

set -uo pipefail
source "$DLRUN_JOB_DIR/lib/rank.sh"
dlrun_identify "$1" "$PMI_RANK" "$MPI_LOCALRANKID" 2 6 # role, rank, local rank, ranks on a node, ranks

# --- Cores: whole nodes of known topology (gpu)
case $DLRUN_LOCAL_RANK in # threads, hardware threads, numactl's option for memory
0) dlrun_bind 16 0-15 --preferred=0; dlrun_show_gpus CUDA_VISIBLE_DEVICES 0,1 ;;
1) dlrun_bind 16 16-31 --preferred=1; dlrun_show_gpus CUDA_VISIBLE_DEVICES 2,3 ;;
esac
dlrun_measure # beside the program: records what the ranks of this node use, for `dlrun usage`

# --- mpi: the command
dlrun_run ./solver
