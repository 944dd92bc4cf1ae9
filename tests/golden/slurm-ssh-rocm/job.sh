#!/bin/bash
#SBATCH --job-name=pairs
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=8
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=8
#SBATCH --time=00:30:00

# pairs on site amd: 2 nodes, 8 ranks, 4 on each node, 8 GPUs on each node. Written by dlrun VERSION.
# Each rank runs: python train.py
# Edit this file and submit it from its own directory: `sbatch job.sh`. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/slurm-ssh-rocm # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source lost-nodes caches compiled start ssh # parts of lib/ that this job uses

# --- Job and nodes ------------------------------------------------------------------------------------------
export DLRUN_JOB_ID="${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}" # the scheduler's name for this job
export DLRUN_RESTART="${SLURM_RESTART_COUNT:-0}" # how often the job was started before: a program may go on from its checkpoint
export DLRUN_NODES=2 # how many nodes run ranks
dlrun_start scontrol show hostnames "$SLURM_JOB_NODELIST" # makes logs/ and state.json, cleans up at the end
dlrun_ask_nodes ssh -o BatchMode=yes # after a failure: is every node still there?

# --- Environment --------------------------------------------------------------------------------------------
cd -- /home/ada/project

# --- Rendezvous ---------------------------------------------------------------------------------------------
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST" # the first host, under its name in the scheduler
dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export OMP_NUM_THREADS=16 # 64 cores / 4 ranks [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]
dlrun_keep_compiled "${TMPDIR:-/tmp}" bdb606664bd8 1 '$DLRUN_RANK' dlrun_ssh "$DLRUN_HOSTS" 1 2 3 ssh -o BatchMode=yes # what was compiled, in the user's store

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_launch dlrun_ssh "$DLRUN_HOSTS" 4 8 3 ssh -o BatchMode=yes bash -p "$DLRUN_JOB_DIR/rank.sh" rank
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
