#!/bin/bash
# chunks, each process (launcher hydra starts it, unbound, as rank.sh ROLE): who it is, its cores, variables and command.

set -uo pipefail
source "$DLRUN_JOB_DIR/lib/rank.sh"
dlrun_identify "$1" "$PMI_RANK" "$MPI_LOCALRANKID" "${MPI_LOCALNRANKS-}" "" 2 6 # role, rank, local rank, ranks on this node, node, planned ranks on a node, ranks

# --- Cores: whole nodes of known topology (gpu)
dlrun_grant 2 0-31 16 0 0 16 CUDA_VISIBLE_DEVICES 0,1,2,3 0-15 0-15 16-31 16-31 # the whole node: if not all of it was granted, its ranks divide what was
case $DLRUN_LOCAL_RANK in # threads, hardware threads, numactl's option for memory
0) dlrun_bind 16 0-15 --preferred=0; dlrun_show_gpus CUDA_VISIBLE_DEVICES 0,1 ;;
1) dlrun_bind 16 16-31 --preferred=1; dlrun_show_gpus CUDA_VISIBLE_DEVICES 2,3 ;;
esac
dlrun_measure # beside the program: records what the ranks of this node use, for `dlrun usage`

# --- mpi: the command
dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run ./solver
