#!/bin/bash

# policy on site gpus: 1 node, 1 rank, 4 GPUs on each node. Written by dlrun VERSION.
# Each rank runs: python -m vllm.entrypoints.openai.api_server --host 0.0.0.0 --port "${DLRUN_ROLE_MODEL_PORT}"
# This is role model of the job two directories up, which runs this file. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/slurm-roles/roles/model # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source slurm-allocation roles # parts of lib/ that this job uses

# --- Job and nodes ------------------------------------------------------------------------------------------
export DLRUN_JOB_ID="${DLRUN_JOB_ID-}" # that of the job of all roles
export DLRUN_RESTART="${1:-0}" # how often the role was started before: a program may go on from its checkpoint
export DLRUN_NODES=1 # how many nodes run ranks
dlrun_start dlrun_role_hosts # makes logs/ and state.json, cleans up at the end

# --- Environment --------------------------------------------------------------------------------------------
cd -- /home/ada/project
unset SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_CPU_BIND SLURM_TRES_PER_TASK SLURM_EXPORT_ENV SLURM_NTASKS_PER_NODE # would change what srun does
set +u # module files and activation scripts may read unset variables
source /etc/profile.d/lmod.sh
cd -- /home/ada/project; set +u # the site's lines may have left it, and ended that
module purge
module load site/2026
source /home/ada/envs/torch/bin/activate
dlrun_own_shell # options, traps and names of commands are as before those lines

# --- Rendezvous ---------------------------------------------------------------------------------------------
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST-ib0" # the first host, under its name in the scheduler, with `-ib0` appended
dlrun_take_ports 20000 29999 1 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export OMP_NUM_THREADS=60 # 60 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]
export CUDA_DEVICE_ORDER=PCI_BUS_ID # GPUs are numbered as in the plan
export NCCL_DEBUG=WARN # logs an explicit message when a call fails, and nothing else [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export NCCL_SOCKET_IFNAME='=ib0' # bootstrap and data over sockets use exactly the interfaces in the site profile (`=`: no prefixes); NCCL by itself may select an interface that other nodes cannot reach [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export NCCL_IB_HCA='=mlx5_0,mlx5_1' # site gpus sets it: Select compute HCAs and keep storage/Ethernet HCAs out. Without '=' the token is a prefix: mlx5_1 also matches mlx5_10..19 [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export UCX_TLS=rc,sm # set by site gpus

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_launch srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --nodelist="$DLRUN_CHOSEN_HOSTS" bash -p "$DLRUN_JOB_DIR/rank.sh" rank
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
