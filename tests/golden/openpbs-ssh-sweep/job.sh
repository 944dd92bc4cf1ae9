#!/bin/bash
#PBS -N pbs_sweep
#PBS -S /bin/bash
#PBS -o points/^array_index^/logs/job.log
#PBS -j oe
#PBS -k doe
#PBS -r y
#PBS -J 0-2
#PBS -l select=2:ncpus=8:mpiprocs=2:mem=16gb
#PBS -l place=scatter
#PBS -q batch
#PBS -l walltime=01:00:00

# pbs sweep on site pbs: 2 nodes, 4 ranks, 2 on each node. Written by dlrun VERSION.
# Each rank of the first of 3 points runs: python train.py 0.1
# Edit this file and submit it from its own directory: `qsub job.sh`. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/openpbs-ssh-sweep # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source pbs resubmit lost-nodes caches compiled start ssh # parts of lib/ that this job uses

# --- Job and nodes ------------------------------------------------------------------------------------------
export DLRUN_JOB_ID="${PBS_JOBID/\[*\]/[]}" # the scheduler's name for this job
export DLRUN_POINT="${PBS_ARRAY_INDEX:-}" # which point of the sweep this is
DLRUN_RESTART="$(dlrun_pbs_restarts run_count)" || true
export DLRUN_RESTART # how often the job was started before: a program may go on from its checkpoint
export DLRUN_NODES=2 # how many nodes run ranks
dlrun_start awk '!seen[$0]++' "$PBS_NODEFILE" # makes logs/ and state.json, cleans up at the end
dlrun_ask_nodes ssh # after a failure: is every node still there?

# --- Environment --------------------------------------------------------------------------------------------
cd -- /home/ada/project
set +u # module files and activation scripts may read unset variables
source /home/ada/envs/torch/bin/activate
dlrun_own_shell # options, traps and names of commands are as before those lines

# --- Rendezvous ---------------------------------------------------------------------------------------------
DLRUN_MASTER_ADDR="$(hostname -f)"
export DLRUN_MASTER_ADDR # the first host's fully qualified name
dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]
dlrun_keep_compiled "${TMPDIR:-/tmp}" ba90e36b54b9 1 '$DLRUN_RANK' dlrun_ssh "$DLRUN_HOSTS" 1 2 1 ssh # what was compiled, in the user's store

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_launch dlrun_ssh "$DLRUN_HOSTS" 2 4 1 ssh bash -p "$DLRUN_JOB_DIR/rank.sh" rank
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
