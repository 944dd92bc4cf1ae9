#!/bin/bash
#SBATCH --job-name=points
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=8
#SBATCH --no-kill
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=15
#SBATCH --gres=gpu:a100:4
#SBATCH --mem=0
#SBATCH --account=abc123
#SBATCH --partition=gpu
#SBATCH --time=04:00:00

# points on site gpus: 1 node, 1 rank, 1 GPU on each node. Written by dlrun VERSION.
# Each rank of the first of 8 points runs: python train.py --lr 0.1 --seed 1 --ranks 1 --out "$DLRUN_RUN_DIR"/model.pt
# Edit this file and submit it from its own directory: `sbatch job.sh`. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/slurm-points-inside # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source coordinator pool first-node caches compiled start local # parts of lib/ that this job uses

# --- Job and nodes ------------------------------------------------------------------------------------------
export DLRUN_JOB_ID="${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}" # the scheduler's name for this job
export DLRUN_RESTART="${SLURM_RESTART_COUNT:-0}" # how often the job was started before: a program may go on from its checkpoint
export DLRUN_NODES=1 # how many nodes run ranks
if (($# == 0)); then # the job itself; for each point it runs this script again, with the point and its place as arguments
  dlrun_granted_hosts scontrol show hostnames "$SLURM_JOB_NODELIST"
  unset SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_CPU_BIND SLURM_TRES_PER_TASK SLURM_EXPORT_ENV SLURM_NTASKS_PER_NODE # would change where points start
  dlrun_pool 8 4 0 14400 0 - 0 - srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block \
    --kill-on-bad-exit=1 --export=ALL --cpu-bind=none --nodelist="$DLRUN_FIRST_HOST" --overlap --mem=0 # points, places on each node, at once, walltime, seconds before its end, signal, requeues, how; what starts a point on a node
fi
export DLRUN_POINT=$1 DLRUN_PLACE=$2 DLRUN_RESTART=$3 # which point of the sweep this is, where on the node, and its earlier starts
dlrun_start dlrun_this_host # makes logs/ and state.json, cleans up at the end

# --- Environment --------------------------------------------------------------------------------------------
cd -- /home/ada/project
set +u # module files and activation scripts may read unset variables
source /etc/profile.d/lmod.sh
cd -- /home/ada/project; set +u # the site's lines may have left it, and ended that
module purge
module load site/2026
dlrun_own_shell # options, traps and names of commands are as before those lines

# --- Rendezvous ---------------------------------------------------------------------------------------------
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST-ib0" # the first host, under its name in the scheduler, with `-ib0` appended
dlrun_take_ports 20000 29999 1 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export OMP_NUM_THREADS=15 # 60 cores / 4 ranks [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]
export CUDA_DEVICE_ORDER=PCI_BUS_ID # GPUs are numbered as in the plan
export NCCL_DEBUG=WARN # logs an explicit message when a call fails, and nothing else [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export UCX_TLS=rc,sm # set by site gpus
dlrun_keep_compiled "${TMPDIR:-/tmp}" bdb606664bd8 - '$DLRUN_RANK' dlrun_local 1 # what was compiled, in the user's store

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_launch dlrun_local 1 bash -p "$DLRUN_JOB_DIR/rank.sh" rank
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
