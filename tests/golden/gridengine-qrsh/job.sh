#!/bin/bash
#$ -N resnet50
#$ -S /bin/bash
#$ -cwd
#$ -o logs/job.log
#$ -j y
#$ -r y
#$ -pe mpi-16 32
#$ -R y
#$ -l gpu=4
#$ -l h_vmem=65536M
#$ -q gpu.q
#$ -P vision
#$ -l h_rt=14400

# resnet50 on site cell: 2 nodes, 8 ranks, 4 on each node, 4 GPUs on each node. Written by dlrun VERSION.
# Each rank runs: python train.py
# Edit this file and submit it from its own directory: `qsub job.sh`. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/gridengine-qrsh # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source gridengine endings lost-nodes caches compiled start ssh qrsh # parts of lib/ that this job uses

# --- Job and nodes ------------------------------------------------------------------------------------------
export DLRUN_JOB_ID="$JOB_ID" # the scheduler's name for this job
DLRUN_RESTART="$(dlrun_ge_restarts)" || true
export DLRUN_RESTART # how often the job was started before: a program may go on from its checkpoint
export DLRUN_NODES=2 # how many nodes run ranks
dlrun_own_log # writes logs/job.log itself: gridengine would deliver it at the end, or elsewhere
dlrun_start dlrun_ge_hosts # makes logs/ and state.json, cleans up at the end
dlrun_end_before 30 14370 # the ranks are ended so many seconds before the end of the walltime, which is so long after the start
dlrun_requeue 2 'timed_out preempted node_failed' dlrun_ge_requeue # how often, and after what
dlrun_ask_nodes qrsh -inherit -nostdin # after a failure: is every node still there?

# --- Environment --------------------------------------------------------------------------------------------
cd -- /home/ada/project

# --- Rendezvous ---------------------------------------------------------------------------------------------
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST" # the first host, under its name in the scheduler
dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]
export NCCL_DEBUG=WARN # logs an explicit message when a call fails, and nothing else [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export NCCL_SOCKET_IFNAME='=ib0' # bootstrap and data over sockets use exactly the interfaces in the site profile (`=`: no prefixes); NCCL by itself may select an interface that other nodes cannot reach [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
dlrun_keep_compiled "${TMPDIR:-/tmp}" bdb606664bd8 1 '$DLRUN_RANK' dlrun_ssh "$DLRUN_HOSTS" 1 2 2 dlrun_qrsh qrsh # what was compiled, in the user's store

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_launch dlrun_ssh "$DLRUN_HOSTS" 4 8 2 dlrun_qrsh qrsh bash -p "$DLRUN_JOB_DIR/rank.sh" rank
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
