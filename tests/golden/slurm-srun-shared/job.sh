#!/bin/bash
#SBATCH --job-name="part of a node"
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=6
#SBATCH --ntasks-per-node=3
#SBATCH --cpus-per-task=4
#SBATCH --mem=24576M
#SBATCH --partition=shared
#SBATCH --qos=low
#SBATCH --time=01:30:00

# part of a node on site shared: 2 nodes, 6 ranks, 3 on each node. Written by dlrun VERSION.
# Each rank runs: python train.py --out=run-"$DLRUN_RANK".txt --threads "$DLRUN_THREADS" "$DLRUN_HOST":"$DLRUN_LOCAL_RANK"
# Edit this file and submit it from its own directory: `sbatch job.sh`. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/slurm-srun-shared # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source caches compiled # parts of lib/ that this job uses

# --- Job and nodes ------------------------------------------------------------------------------------------
export DLRUN_JOB_ID="${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}" # the scheduler's name for this job
export DLRUN_RESTART="${SLURM_RESTART_COUNT:-0}" # how often the job was started before: a program may go on from its checkpoint
export DLRUN_NODES=2 # how many nodes run ranks
dlrun_start scontrol show hostnames "$SLURM_JOB_NODELIST" # makes logs/ and state.json, cleans up at the end

# --- Environment --------------------------------------------------------------------------------------------
cd -- /home/ada/project
unset SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_CPU_BIND SLURM_TRES_PER_TASK SLURM_EXPORT_ENV SLURM_NTASKS_PER_NODE # would change what srun does

# --- Rendezvous ---------------------------------------------------------------------------------------------
DLRUN_MASTER_ADDR="$(hostname -i | cut -d ' ' -f 1)"
export DLRUN_MASTER_ADDR # the first host's address by `hostname -i`
dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]
dlrun_keep_compiled "${TMPDIR:-/tmp}" bdb606664bd8 1 '$SLURM_PROCID' srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none --mpi=pmix # what was compiled, in the user's store

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_launch srun --nodes=2 --ntasks=6 --ntasks-per-node=3 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --mpi=pmix bash -p "$DLRUN_JOB_DIR/rank.sh" rank
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
