#!/bin/bash
#SBATCH --job-name=uneven
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=3
#SBATCH --ntasks=10
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=2
#SBATCH --nodelist=n[01-03]
#SBATCH --exclude=n99
#SBATCH --time=00:30:00

# uneven on site plain: 3 nodes, 10 ranks, at most 4 on each node. Written by dlrun VERSION.
# Each rank runs: ./solver
# Edit this file and submit it from its own directory: `sbatch job.sh`. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/slurm-openmpi-uneven # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source openmpi # parts of lib/ that this job uses

# --- Job and nodes ------------------------------------------------------------------------------------------
export DLRUN_JOB_ID="${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}" # the scheduler's name for this job
export DLRUN_RESTART="${SLURM_RESTART_COUNT:-0}" # how often the job was started before: a program may go on from its checkpoint
export DLRUN_NODES=3 # how many nodes run ranks
dlrun_start scontrol show hostnames "$SLURM_JOB_NODELIST" # makes logs/ and state.json, cleans up at the end

# --- Environment --------------------------------------------------------------------------------------------
cd -- /home/ada/project
unset SLURM_EXPORT_ENV # would change what openmpi does
set +u # module files and activation scripts may read unset variables
module load openmpi/5
dlrun_own_shell # options, traps and names of commands are as before those lines

# --- Rendezvous ---------------------------------------------------------------------------------------------
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST" # the first host, under its name in the scheduler
dlrun_take_ports 20000 29999 1 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_launch dlrun_openmpi 4 mpirun -np 10 --hostfile "$DLRUN_HOSTS"-x4 --map-by ppr:4:node --bind-to none \
  bash -p "$DLRUN_JOB_DIR/rank.sh" rank
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
