#!/bin/bash

# here on site here: 1 node, 2 ranks. Written by dlrun VERSION.
# Each rank runs: python examples/digits/train.py
# Edit this file and submit it from its own directory: `bash job.sh`. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/local # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source caches compiled start local # parts of lib/ that this job uses

# --- Job and nodes ------------------------------------------------------------------------------------------
export DLRUN_JOB_ID="${DLRUN_LOCAL_JOB:-$(dlrun_this_process)}" # the scheduler's name for this job
export DLRUN_RESTART="${DLRUN_LOCAL_RESTART:-0}" # how often the job was started before: a program may go on from its checkpoint
export DLRUN_NODES=1 # how many nodes run ranks
dlrun_start dlrun_this_host # makes logs/ and state.json, cleans up at the end

# --- Environment --------------------------------------------------------------------------------------------
cd -- /home/ada/project

# --- Rendezvous ---------------------------------------------------------------------------------------------
export DLRUN_MASTER_ADDR="127.0.0.1" # all ranks run on this machine
dlrun_take_ports 20000 29999 1 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]
export GREETING='it'"'"'s $HOME `id`' # set by the spec, spec.yaml:6:37
export OMP_NUM_THREADS=3 # set by the spec, spec.yaml:6:73 (dlrun would have set 4: 8 cores / 2 ranks)
dlrun_keep_compiled "${TMPDIR:-/tmp}" bdb606664bd8 - '$DLRUN_RANK' dlrun_local 1 # what was compiled, in the user's store

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_launch dlrun_local 2 bash -p "$DLRUN_JOB_DIR/rank.sh" rank
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
