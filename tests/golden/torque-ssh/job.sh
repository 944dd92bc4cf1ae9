#!/bin/bash
#PBS -N older
#PBS -S /bin/bash
#PBS -o logs/job.log
#PBS -j oe
#PBS -r n
#PBS -l nodes=2:ppn=8
#PBS -q long
#PBS -l walltime=30:00:00

# older on site torque: 2 nodes, 4 ranks, 2 on each node. Written by dlrun VERSION.
# Each rank runs: python train.py
# Edit this file and submit it from its own directory: `qsub job.sh`. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/torque-ssh # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source pbs resubmit lost-nodes caches compiled start ssh # parts of lib/ that this job uses

# --- Job and nodes ------------------------------------------------------------------------------------------
export DLRUN_JOB_ID="${PBS_JOBID/\[*\]/[]}" # the scheduler's name for this job
DLRUN_RESTART="$(dlrun_pbs_restarts start_count)" || true
export DLRUN_RESTART # how often the job was started before: a program may go on from its checkpoint
export DLRUN_NODES=2 # how many nodes run ranks
dlrun_own_log # writes logs/job.log itself: torque would deliver it at the end, or elsewhere
dlrun_start awk '!seen[$0]++' "$PBS_NODEFILE" # makes logs/ and state.json, cleans up at the end
dlrun_ask_nodes ssh # after a failure: is every node still there?

# --- Environment --------------------------------------------------------------------------------------------
cd -- /home/ada/project
set +u # module files and activation scripts may read unset variables
eval "$(conda shell.bash hook)"
conda activate /opt/conda/envs/torch
export PATH=/opt/bin:$PATH
dlrun_own_shell # options, traps and names of commands are as before those lines

# --- Rendezvous ---------------------------------------------------------------------------------------------
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST" # the first host, under its name in the scheduler
dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]
dlrun_keep_compiled "${TMPDIR:-/tmp}" 233aef83db81 1 '$DLRUN_RANK' dlrun_ssh "$DLRUN_HOSTS" 1 2 1 ssh # what was compiled, in the user's store

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_launch dlrun_ssh "$DLRUN_HOSTS" 2 4 1 ssh bash -p "$DLRUN_JOB_DIR/rank.sh" rank
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
