#!/bin/bash
# flux: --job-name=resnet50
# flux: --output=logs/job.log
# flux: --nodes=4
# flux: --broker-opts=-Sbroker.quorum=1
# flux: --exclusive
# flux: --queue=pbatch
# flux: --bank=guests
# flux: --requires=-host:tuo1012
# flux: --time-limit=14400s
# flux: --dependency=afterok:fyimXLB

# resnet50 on site fluxes: 4 nodes, 16 ranks, 4 on each node, 4 GPUs on each node. Written by dlrun VERSION.
# Each rank runs: python train.py
# Edit this file and submit it from its own directory: `flux batch job.sh`. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/flux-run # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source flux resubmit lost-nodes caches compiled start flux-run # parts of lib/ that this job uses

# --- Job and nodes ------------------------------------------------------------------------------------------
export DLRUN_JOB_ID="${FLUX_ENCLOSING_ID/#ƒ/f}" # the scheduler's name for this job
export DLRUN_RESTART="0" # how often the job was started before: a program may go on from its checkpoint
export DLRUN_NODES=4 # how many nodes run ranks
dlrun_start flux hostlist --expand --delimiter='\n' local # makes logs/ and state.json, cleans up at the end
dlrun_ask_nodes bash -c 'rank=$("$0" hostlist --find="$1" local) && exec "$0" exec --quiet --rank="$rank" "${@:2}"' flux # after a failure: is every node still there?

# --- Environment --------------------------------------------------------------------------------------------
cd -- /home/ada/project
set +u # module files and activation scripts may read unset variables
source /home/ada/envs/torch/bin/activate
dlrun_own_shell # options, traps and names of commands are as before those lines

# --- Rendezvous ---------------------------------------------------------------------------------------------
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST" # the first host, under its name in the scheduler
dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export OMP_NUM_THREADS=24 # 96 cores / 4 ranks [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]
export NCCL_DEBUG=WARN # logs an explicit message when a call fails, and nothing else [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export NCCL_NET_GDR_LEVEL=PHB # Required by HPE so that a GPU and a NIC of the same NUMA node use GPUDirect RDMA; without it NCCL decides itself by their distance [HewlettPackard/shs-ccl-docs:nccl/nccl_tuning_guide.md + rccl/rccl_tuning_guide.md + ccl_env.sh@438fcce; NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export NCCL_CROSS_NIC=1 # Recommended by HPE for large systems; without it NCCL first tries the same NIC for all of a ring [HewlettPackard/shs-ccl-docs:nccl/nccl_tuning_guide.md + rccl/rccl_tuning_guide.md + ccl_env.sh@438fcce; NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export NCCL_SOCKET_IFNAME=hsi0 # bootstrap uses the high-speed network; without it NCCL selects an interface itself, perhaps a slow one [HewlettPackard/shs-ccl-docs:nccl/nccl_tuning_guide.md + rccl/rccl_tuning_guide.md + ccl_env.sh@438fcce]
export HSA_FORCE_FINE_GRAIN_PCIE=1 # Required for peer access between GPUs; without it RCCL warns of low performance, instability or hangs [HewlettPackard/shs-ccl-docs:nccl/nccl_tuning_guide.md + rccl/rccl_tuning_guide.md + ccl_env.sh@438fcce; ROCm/rccl:README.md + src/init.cc@0cbce2a7]
export FI_MR_CACHE_MONITOR=userfaultfd # Recommended by HPE, who also support kdreg2; with memhooks, the third one, NCCL and RCCL can deadlock [HewlettPackard/shs-ccl-docs:nccl/nccl_tuning_guide.md + rccl/rccl_tuning_guide.md + ccl_env.sh@438fcce; olcf/olcf-user-docs:software/analytics/pytorch_frontier.rst@2745903]
export FI_CXI_DISABLE_HOST_REGISTER=1 # Turns off the registration of host buffers with the GPU driver, which can deadlock [HewlettPackard/shs-ccl-docs:nccl/nccl_tuning_guide.md + rccl/rccl_tuning_guide.md + ccl_env.sh@438fcce]
export FI_CXI_DEFAULT_CQ_SIZE=131072 # A completion queue that is deep enough for large jobs; without it the provider's size limits the transfers in flight [HewlettPackard/shs-ccl-docs:nccl/nccl_tuning_guide.md + rccl/rccl_tuning_guide.md + ccl_env.sh@438fcce]
export FI_CXI_DEFAULT_TX_SIZE=2048 # HPE's value for large jobs with many unexpected rendezvous messages (default: 1024) [HewlettPackard/shs-ccl-docs:nccl/nccl_tuning_guide.md + rccl/rccl_tuning_guide.md + ccl_env.sh@438fcce]
export FI_CXI_RX_MATCH_MODE=hybrid # Message matching falls back to software when the resources of the NIC are used up, instead of stalling [HewlettPackard/shs-ccl-docs:nccl/nccl_tuning_guide.md + rccl/rccl_tuning_guide.md + ccl_env.sh@438fcce]
dlrun_keep_compiled "${TMPDIR:-/tmp}" ba90e36b54b9 1 '$FLUX_TASK_RANK' dlrun_flux flux --nodes=4 --ntasks=4 -o cpu-affinity=off -o gpu-affinity=off -o mpibind=off -o exit-on-error # what was compiled, in the user's store

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_launch dlrun_flux flux --nodes=4 --ntasks=16 -o cpu-affinity=off -o gpu-affinity=off -o mpibind=off -o exit-on-error \
  bash -p "$DLRUN_JOB_DIR/rank.sh" rank
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
