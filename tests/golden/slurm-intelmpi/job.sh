#!/bin/bash
#SBATCH --job-name=intel
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=4
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=24
#SBATCH --time=00:30:00

# intel on site intel: 2 nodes, 4 ranks, 2 on each node. Written by dlrun VERSION.
# Each rank runs: ./solver --data "$DLRUN_DATA_SET"
# Edit this file and submit it from its own directory: `sbatch job.sh`. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/slurm-intelmpi # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source staging # parts of lib/ that this job uses

# --- Job and nodes ------------------------------------------------------------------------------------------
export DLRUN_JOB_ID="${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}" # the scheduler's name for this job
export DLRUN_RESTART="${SLURM_RESTART_COUNT:-0}" # how often the job was started before: a program may go on from its checkpoint
export DLRUN_NODES=2 # how many nodes run ranks
dlrun_start scontrol show hostnames "$SLURM_JOB_NODELIST" # makes logs/ and state.json, cleans up at the end

# --- Environment --------------------------------------------------------------------------------------------
cd -- /home/ada/project
unset SLURM_EXPORT_ENV I_MPI_PIN_DOMAIN I_MPI_PIN_PROCESSOR_LIST # would change what intelmpi does

# --- Rendezvous ---------------------------------------------------------------------------------------------
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST" # the first host, under its name in the scheduler
dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export OMP_NUM_THREADS=42 # 48 cores / 2 ranks, 3 reserved for communication and data loading [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]
export I_MPI_PIN=0 # ranks are started unbound; rank.sh binds them [Intel MPI Library Developer Reference]
export I_MPI_JOB_RESPECT_PROCESS_PLACEMENT=0 # makes -ppn take precedence over the layout of the scheduler [Intel MPI Library Developer Reference]

# --- Data on every node before the first step ---------------------------------------------------------------
export DLRUN_STAGE="${TMPDIR}"/fast/dlrun-"$DLRUN_USER" # node-local storage, as the site names it
dlrun_chain_port 1 # where nodes pass data on to one another
dlrun_data DLRUN_DATA_SET set /scratch/set # its 100GB fits the 400GB of node-local storage ($TMPDIR/fast), and is then read once from the shared file system instead of by 2 nodes in every epoch
dlrun_standby_step 2 srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 \
  --export=ALL --cpu-bind=none --mpi=none --overlap --mem=0 # for what is left to do on each node when the job is cancelled
dlrun_stage data mpiexec -f "$DLRUN_HOSTS" -ppn 1 -n 2 -genv I_MPI_DEBUG 5 # each node runs stage.sh

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_launch mpiexec -f "$DLRUN_HOSTS" -ppn 2 -n 4 -genv I_MPI_DEBUG 5 bash -p "$DLRUN_JOB_DIR/rank.sh" rank
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
