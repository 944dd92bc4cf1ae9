#!/bin/bash
#SBATCH --job-name=contained
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=4
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-node=2
#SBATCH --time=00:30:00

# contained on site gpus: 2 nodes, 4 ranks, 2 on each node, 2 GPUs on each node. Written by dlrun VERSION.
# Each rank runs: python train.py "$DLRUN_DATA_SET" 'it'"'"'s $HOME'
# Edit this file and submit it from its own directory: `sbatch job.sh`. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/slurm-srun-enroot # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source staging caches compiled # parts of lib/ that this job uses

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
dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export OMP_NUM_THREADS=8 # 16 cores / 2 ranks [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]
export NVIDIA_VISIBLE_DEVICES=all # makes enroot mount NVIDIA GPUs and libraries into the container [enroot, Standard Hooks, 98-nvidia.sh]
export NVIDIA_DRIVER_CAPABILITIES=compute,utility # makes enroot mount NVIDIA GPUs and libraries into the container [enroot, Standard Hooks, 98-nvidia.sh]
export DLRUN_DATA_LABELS=/scratch/labels # data set `labels`: from the spec
export NCCL_DEBUG=INFO # set by the spec, spec.yaml:8:27

# --- Data on every node before the first step ---------------------------------------------------------------
export DLRUN_STAGE="${TMPDIR}"/dlrun-"$DLRUN_USER" # node-local storage, as the site names it
dlrun_keep_compiled "${TMPDIR}" 5b754f588a20 1 '$SLURM_PROCID' srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none # compilers' caches begin with what earlier jobs have compiled; the port where nodes pass it on, and data
dlrun_data DLRUN_DATA_SET set '/scratch/my set' # from the spec
dlrun_standby_step 2 srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 \
  --export=ALL --cpu-bind=none --overlap --mem=0 # for what is left to do on each node when the job is cancelled
dlrun_stage data srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 \
  --export=ALL --cpu-bind=none # each node runs stage.sh

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_log 'pyxis imports the image on each node by itself: it is not compared with the first node'
dlrun_launch srun --nodes=2 --ntasks=4 --ntasks-per-node=2 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none '--container-image=nvcr.io#nvidia/pytorch:25.05-py3' \
  --container-mounts="$DLRUN_JOB_DIR":"$DLRUN_JOB_DIR",/home/ada/project:/home/ada/project,/scratch/labels:/scratch/labels,"${TMPDIR}":"${TMPDIR}",/opt/site:/opt/site:ro \
  --container-workdir=/home/ada/project --container-env=NVIDIA_VISIBLE_DEVICES,NVIDIA_DRIVER_CAPABILITIES \
  --no-container-mount-home bash -p "$DLRUN_JOB_DIR/rank.sh" rank
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
