#!/bin/bash
#SBATCH --job-name=staged
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR2@720

# staged on site ssd: 2 nodes, 2 ranks, 1 on each node. Written by dlrun VERSION.
# Each rank runs: python train.py --data "$DLRUN_DATA_IMAGENET" --out "$DLRUN_RESULTS"
# Edit this file and submit it from its own directory: `sbatch job.sh`. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/slurm-srun-staged # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source endings staging caches compiled # parts of lib/ that this job uses

# --- Job and nodes ------------------------------------------------------------------------------------------
export DLRUN_JOB_ID="${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}" # the scheduler's name for this job
export DLRUN_RESTART="${SLURM_RESTART_COUNT:-0}" # how often the job was started before: a program may go on from its checkpoint
export DLRUN_NODES=2 # how many nodes run ranks
dlrun_start scontrol show hostnames "$SLURM_JOB_NODELIST" # makes logs/ and state.json, cleans up at the end
dlrun_checkpoint USR1 USR2 120 13680 scheduler 'the ranks' # the program's signal, the signal to the rank scripts, seconds before the end of the walltime, seconds after the start, sender, receivers

# --- Environment --------------------------------------------------------------------------------------------
cd -- /home/ada/project
unset SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_CPU_BIND SLURM_TRES_PER_TASK SLURM_EXPORT_ENV SLURM_NTASKS_PER_NODE # would change what srun does
set +u # module files and activation scripts may read unset variables
source /home/ada/env/bin/activate
dlrun_own_shell # options, traps and names of commands are as before those lines

# --- Rendezvous ---------------------------------------------------------------------------------------------
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST" # the first host, under its name in the scheduler
dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]

# --- Data on every node before the first step, results from every node after the last -----------------------
export DLRUN_STAGE=/local/dlrun-"$DLRUN_USER" # node-local storage, as the site names it
dlrun_results '/scratch/my results' always # what ranks write to $DLRUN_RESULTS is copied there
dlrun_keep_compiled /local dd78600e5e9a 1 '$SLURM_PROCID' srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none # compilers' caches begin with what earlier jobs have compiled; the port where nodes pass it on, and data
dlrun_data DLRUN_DATA_IMAGENET imagenet /scratch/imagenet # its 150GB fits the 1TB of node-local storage (/local), and is then read once from the shared file system instead of by 2 nodes in every epoch
dlrun_data DLRUN_DATA_OPEN open /scratch/open # its size is unknown at submission: the part that fits on every node is copied, the rest is read in place
dlrun_data DLRUN_DATA_ENVIRONMENT environment /home/ada/env # Python imports from node-local storage, which relieves the shared file system
dlrun_data_early DLRUN_DATA_PART part /scratch/part # from the spec
dlrun_standby_step 2 srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 \
  --export=ALL --cpu-bind=none --overlap --mem=0 # for what is left to do on each node when the job is cancelled
dlrun_start_early 2 # the training starts once so many nodes have enough of the last set; the rest comes meanwhile
dlrun_stage data srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 \
  --export=ALL --cpu-bind=none # each node runs stage.sh
dlrun_in_place_if_too_large DLRUN_DATA_OPEN open /scratch/open # then it is read in place
dlrun_in_place_if_too_large DLRUN_DATA_ENVIRONMENT environment /home/ada/env # then it is read in place
dlrun_use_staged_venv environment "$DLRUN_DATA_ENVIRONMENT" # as its `activate` would

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_launch srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
