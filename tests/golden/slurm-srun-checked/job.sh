#!/bin/bash
#SBATCH --job-name=checked
#SBATCH --output=logs/job.log
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --nodes=5
#SBATCH --ntasks=20
#SBATCH --no-kill
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=12
#SBATCH --exclusive
#SBATCH --gpus-per-node=4
#SBATCH --partition=gpu
#SBATCH --time=02:00:00
#SBATCH --signal=B:USR2@300

# checked on site gpus: 4 nodes, 16 ranks, 4 on each node, 4 GPUs on each node. Written by dlrun VERSION.
# Each rank runs: python train.py
# Edit this file and submit it from its own directory: `sbatch job.sh`. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/slurm-srun-checked # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source endings hang nodes first-node caches compiled # parts of lib/ that this job uses

# --- Job and nodes ------------------------------------------------------------------------------------------
export DLRUN_JOB_ID="${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}" # the scheduler's name for this job
export DLRUN_RESTART="${SLURM_RESTART_COUNT:-0}" # how often the job was started before: a program may go on from its checkpoint
dlrun_count_replacements # this script may have begun again on other nodes of the same job
export DLRUN_NODES=4 # how many nodes run ranks
dlrun_start scontrol show hostnames "$SLURM_JOB_NODELIST" # makes logs/ and state.json, cleans up at the end
dlrun_checkpoint USR1 USR2 300 6900 scheduler 'the ranks' # the program's signal, the signal to the rank scripts, seconds before the end of the walltime, seconds after the start, sender, receivers
dlrun_requeue 2 'timed_out preempted node_failed hang' scontrol requeue "${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}" # how often, and after what
dlrun_watch_progress 16 rank 10m # the job ends once none has written or computed for so long

# --- Environment --------------------------------------------------------------------------------------------
cd -- /home/ada/project
unset SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_CPU_BIND SLURM_TRES_PER_TASK SLURM_EXPORT_ENV SLURM_NTASKS_PER_NODE # would change what srun does

# --- Nodes: the best of them, as 1 more than needed are granted ---------------------------------------------
dlrun_on_node() { # COMMAND...: run it on the host DLRUN_FIRST_HOST
  srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none \
    --overlap --nodelist="$DLRUN_FIRST_HOST" "$@"
}
dlrun_restart_on_node_failure # on other nodes, if one fails and enough are left
dlrun_exclude_on_requeue # keeps the bad nodes out of the next run, too
dlrun_choose_nodes 4 180 # how many; seconds that the checks may take

# --- Rendezvous ---------------------------------------------------------------------------------------------
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST" # the first host, under its name in the scheduler
dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export OMP_NUM_THREADS=12 # 48 cores / 4 ranks [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]
export CUDA_DEVICE_ORDER=PCI_BUS_ID # GPUs are numbered as in the plan
export NCCL_DEBUG=INFO # makes the library log its transport, which `fabric_check` compares
export NCCL_SOCKET_IFNAME='=ib0' # bootstrap and data over sockets use exactly the interfaces in the site profile (`=`: no prefixes); NCCL by itself may select an interface that other nodes cannot reach [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export PYTHONFAULTHANDLER=1 # on SIGABRT, a hanging rank writes its Python stacks to its log [Python documentation, faulthandler]
export GLOO_LOG_LEVEL=INFO # makes the library log its transport, which `fabric_check` compares
export NCCL_DEBUG_SUBSYS=INIT,NET # makes the library log its transport, which `fabric_check` compares
export UCX_LOG_LEVEL=info # makes the library log its transport, which `fabric_check` compares
dlrun_keep_compiled "${TMPDIR:-/tmp}" bdb606664bd8 1 '$SLURM_PROCID' srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none --nodelist="$DLRUN_CHOSEN_HOSTS" # what was compiled, in the user's store

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_launch srun --nodes=4 --ntasks=16 --ntasks-per-node=4 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --nodelist="$DLRUN_CHOSEN_HOSTS" bash -p "$DLRUN_JOB_DIR/rank.sh" rank
dlrun_start_watcher bash -p "$DLRUN_JOB_DIR/lib/python.sh" "$DLRUN_JOB_DIR/transport_lines.py" fail infiniband ib rank 4 16 'load the module ofed' # compares the transport that each library logs with the site's fabric; ends once all have logged it
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
