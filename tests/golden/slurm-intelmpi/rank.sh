#!/bin/bash
# intel, each process (launcher intelmpi starts it, unbound, as rank.sh ROLE): who it is, its cores, variables and command.

set -uo pipefail
source "$DLRUN_JOB_DIR/lib/rank.sh"
dlrun_identify "$1" "$PMI_RANK" "$MPI_LOCALRANKID" "${MPI_LOCALNRANKS-}" "" 2 4 # role, rank, local rank, ranks on this node, node, planned ranks on a node, ranks

# --- Cores: whole nodes of known topology (cpu)
dlrun_grant 2 0-89 21 2 1 42 # the whole node: if not all of it was granted, its ranks divide what was
case $DLRUN_LOCAL_RANK in # threads, hardware threads, numactl's option for memory
0) dlrun_bind 42 0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38,40,48,50,52,54,56,58,60,62,64,66,68,70,72,74,76,78,80,82,84,86,88 --membind=0; dlrun_other_cores 46,44 42 ;;
1) dlrun_bind 42 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31,33,35,37,39,41,49,51,53,55,57,59,61,63,65,67,69,71,73,75,77,79,81,83,85,87,89 --membind=1; dlrun_other_cores 47,45 43 ;;
esac
dlrun_measure # beside the program: records what the ranks of this node use, for `dlrun usage`

# --- mpi: the command
dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run ./solver --data "$DLRUN_DATA_SET"
