#!/bin/bash
#SBATCH --job-name=burst
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=4
#SBATCH --ntasks=4
#SBATCH --ntasks-per-node=1
#SBATCH --time=04:00:00
#DW jobdw type=scratch access_mode=striped capacity=800GB

# burst on site cray: 4 nodes, 4 ranks, 1 on each node. Written by dlrun VERSION.
# Each rank runs: python train.py --data "$DLRUN_DATA_IMAGENET" --out "$DLRUN_RESULTS"
# Edit this file and submit it from its own directory: `sbatch job.sh`. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/slurm-srun-burst-buffer # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source endings staging # parts of lib/ that this job uses

# --- Job and nodes ------------------------------------------------------------------------------------------
export DLRUN_JOB_ID="${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}" # the scheduler's name for this job
export DLRUN_RESTART="${SLURM_RESTART_COUNT:-0}" # how often the job was started before: a program may go on from its checkpoint
export DLRUN_NODES=4 # how many nodes run ranks
dlrun_start scontrol show hostnames "$SLURM_JOB_NODELIST" # makes logs/ and state.json, cleans up at the end
dlrun_end_before 30 14070 # the ranks are ended so many seconds before the end of the walltime, which is so long after the start

# --- Environment --------------------------------------------------------------------------------------------
cd -- /home/ada/project
unset SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_CPU_BIND SLURM_TRES_PER_TASK SLURM_EXPORT_ENV SLURM_NTASKS_PER_NODE # would change what srun does

# --- Rendezvous ---------------------------------------------------------------------------------------------
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST" # the first host, under its name in the scheduler
dlrun_take_ports 20000 29999 1 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]

# --- Data on every node before the first step, results from every node after the last -----------------------
export DLRUN_STAGE="${DW_JOB_STRIPED}"/dlrun-"$DLRUN_USER" # node-local storage, as the site names it
dlrun_results /scratch/results always # what ranks write to $DLRUN_RESULTS is copied there
dlrun_data DLRUN_DATA_IMAGENET imagenet /scratch/imagenet # its 150GB is copied to node-local storage ($DW_JOB_STRIPED), and is then read once from the shared file system instead of by 4 nodes in every epoch; should a node not have the space when the job starts, the rest is read in place
dlrun_standby_step 1 srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 \
  --export=ALL --cpu-bind=none --mpi=pmix --overlap --mem=0 # for what is left to do on each node when the job is cancelled
dlrun_stage data srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 \
  --export=ALL --cpu-bind=none --mpi=pmix # each node runs stage.sh
dlrun_in_place_if_too_large DLRUN_DATA_IMAGENET imagenet /scratch/imagenet # then it is read in place

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_launch srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --mpi=pmix bash -p "$DLRUN_JOB_DIR/rank.sh" rank
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
