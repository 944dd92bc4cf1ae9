#!/bin/bash
#SBATCH --job-name=bound-by-slurm
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=8
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=6
#SBATCH --time=01:00:00

# bound-by-slurm on site plain: 2 nodes, 8 ranks, 4 on each node. Written by dlrun VERSION.
# Each rank runs: ./solver --ranks=8
# Edit this file and submit it from its own directory: `sbatch job.sh`. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/slurm-srun-scheduler-binds # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"

# --- Job and nodes ------------------------------------------------------------------------------------------
export DLRUN_JOB_ID="${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}" # the scheduler's name for this job
export DLRUN_RESTART="${SLURM_RESTART_COUNT:-0}" # how often the job was started before: a program may go on from its checkpoint
export DLRUN_NODES=2 # how many nodes run ranks
dlrun_start scontrol show hostnames "$SLURM_JOB_NODELIST" # makes logs/ and state.json, cleans up at the end

# --- Environment --------------------------------------------------------------------------------------------
cd -- /home/ada/project
unset SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_CPU_BIND SLURM_TRES_PER_TASK SLURM_EXPORT_ENV SLURM_NTASKS_PER_NODE # would change what srun does

# --- Rendezvous ---------------------------------------------------------------------------------------------
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST" # the first host, under its name in the scheduler
dlrun_take_ports 20000 29999 1 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export OMP_NUM_THREADS=5 # 6 cores per rank, 1 of them reserved [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_launch srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpus-per-task=6 --cpu-bind=cores --mpi=pmi2 --unbuffered bash -p "$DLRUN_JOB_DIR/rank.sh" rank
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
