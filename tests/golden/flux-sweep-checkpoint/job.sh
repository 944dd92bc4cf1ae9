#!/bin/bash
# flux: --job-name=search
# flux: --nodes=1
# flux: --exclusive
# flux: --queue=pbatch
# flux: --time-limit=7200s

# search on site fluxes: 1 node, 4 ranks, 4 GPUs on each node. Written by dlrun VERSION.
# Each rank of the first of 3 points runs: python train.py --lr 0.1
# Edit this file and submit it from its own directory: `bash lib/flux.sh job.sh 3 2`. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/flux-sweep-checkpoint # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source flux resubmit endings caches compiled start flux-run # parts of lib/ that this job uses

# --- Job and nodes ------------------------------------------------------------------------------------------
export DLRUN_JOB_ID="${FLUX_ENCLOSING_ID/#ƒ/f}" # the scheduler's name for this job
export DLRUN_POINT="${DLRUN_FLUX_POINT:-}" # which point of the sweep this is
export DLRUN_RESTART="0" # how often the job was started before: a program may go on from its checkpoint
export DLRUN_NODES=1 # how many nodes run ranks
dlrun_start flux hostlist --expand --delimiter='\n' local # makes logs/ and state.json, cleans up at the end
dlrun_checkpoint USR1 USR2 300 6900 job 'the ranks' # the program's signal, the signal to the rank scripts, seconds before the end of the walltime, seconds after the start, sender, receivers

# --- Environment --------------------------------------------------------------------------------------------
cd -- /home/ada/project

# --- Rendezvous ---------------------------------------------------------------------------------------------
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST" # the first host, under its name in the scheduler
dlrun_take_ports 20000 29999 1 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export OMP_NUM_THREADS=24 # 96 cores / 4 ranks [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]
export NCCL_DEBUG=WARN # logs an explicit message when a call fails, and nothing else [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export HSA_FORCE_FINE_GRAIN_PCIE=1 # Required for peer access between GPUs; without it RCCL warns of low performance, instability or hangs [HewlettPackard/shs-ccl-docs:nccl/nccl_tuning_guide.md + rccl/rccl_tuning_guide.md + ccl_env.sh@438fcce; ROCm/rccl:README.md + src/init.cc@0cbce2a7]
dlrun_keep_compiled "${TMPDIR:-/tmp}" bdb606664bd8 - '$FLUX_TASK_RANK' dlrun_flux flux --nodes=1 --ntasks=1 -o cpu-affinity=off -o gpu-affinity=off -o mpibind=off -o exit-on-error # what was compiled, in the user's store

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_launch dlrun_flux flux --nodes=1 --ntasks=4 -o cpu-affinity=off -o gpu-affinity=off -o mpibind=off -o exit-on-error \
  bash -p "$DLRUN_JOB_DIR/rank.sh" rank
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
