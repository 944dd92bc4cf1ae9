#!/bin/bash
#SBATCH --job-name=elastic
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=8
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-task=1
#SBATCH --time=01:00:00

# elastic on site plain: 2 nodes, 8 ranks, 4 on each node, 4 GPUs on each node. Written by dlrun VERSION.
# Each agent runs: python -m torch.distributed.run --nnodes=2 --nproc-per-node=4 --max-restarts=2 --rdzv-backend=c10d --rdzv-endpoint="$DLRUN_MASTER_ADDR":"$DLRUN_MASTER_PORT" --rdzv-id="$DLRUN_RUN_ID" --rdzv-conf=is_host="$(( DLRUN_NODE_RANK == 0 ))" train.py
# Edit this file and submit it from its own directory: `sbatch job.sh`. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/slurm-srun-torchrun # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source addresses caches compiled # parts of lib/ that this job uses

# --- Job and nodes ------------------------------------------------------------------------------------------
export DLRUN_JOB_ID="${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}" # the scheduler's name for this job
export DLRUN_RESTART="${SLURM_RESTART_COUNT:-0}" # how often the job was started before: a program may go on from its checkpoint
export DLRUN_NODES=2 # how many nodes run ranks
dlrun_start scontrol show hostnames "$SLURM_JOB_NODELIST" # makes logs/ and state.json, cleans up at the end

# --- Environment --------------------------------------------------------------------------------------------
cd -- /home/ada/project
unset SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_CPU_BIND SLURM_TRES_PER_TASK SLURM_EXPORT_ENV SLURM_NTASKS_PER_NODE # would change what srun does
set +u # module files and activation scripts may read unset variables
eval "$(conda shell.bash hook)"
conda activate torch-2.6
ulimit -n 65536
dlrun_own_shell # options, traps and names of commands are as before those lines

# --- Rendezvous ---------------------------------------------------------------------------------------------
DLRUN_MASTER_ADDR="$(dlrun_address_of eno1)"
export DLRUN_MASTER_ADDR # the address of `eno1` on the first host
dlrun_take_ports 30000 30999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]
export NCCL_DEBUG=WARN # logs an explicit message when a call fails, and nothing else [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export NCCL_SOCKET_IFNAME='=eno1' # bootstrap and data over sockets use exactly the interfaces in the site profile (`=`: no prefixes); NCCL by itself may select an interface that other nodes cannot reach [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
dlrun_keep_compiled "${TMPDIR:-/tmp}" 6855f4a0e71b 1 '$SLURM_PROCID' srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none # what was compiled, in the user's store

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_launch srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" agent
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
