#!/bin/bash
#PBS -N totals
#PBS -S /bin/bash
#PBS -o logs/job.log
#PBS -j oe
#PBS -k doe
#PBS -r y
#PBS -l ncpus=16
#PBS -l mem=64gb
#PBS -P ab12
#PBS -l walltime=01:00:00

# totals on site totals: 2 nodes, 8 ranks, 4 on each node. Written by dlrun VERSION.
# Each rank runs: ./solver
# Edit this file and submit it from its own directory: `qsub job.sh`. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/openpbs-openmpi-whole-job # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source pbs resubmit endings lost-nodes openmpi # parts of lib/ that this job uses

# --- Job and nodes ------------------------------------------------------------------------------------------
export DLRUN_JOB_ID="${PBS_JOBID/\[*\]/[]}" # the scheduler's name for this job
DLRUN_RESTART="$(dlrun_pbs_restarts run_count)" || true
export DLRUN_RESTART # how often the job was started before: a program may go on from its checkpoint
dlrun_exit_if_resubmitted # ends here if the next run is submitted already: openpbs may have put this one back as well
export DLRUN_NODES=2 # how many nodes run ranks
dlrun_start awk '!seen[$0]++' "$PBS_NODEFILE" # makes logs/ and state.json, cleans up at the end
dlrun_checkpoint TERM USR1 120 3480 job 'the ranks' # the program's signal, the signal to the rank scripts, seconds before the end of the walltime, seconds after the start, sender, receivers
dlrun_requeue 2 'timed_out preempted node_failed' dlrun_resubmit qsub job.sh # how often, and after what
dlrun_ask_nodes ssh -o BatchMode=yes # after a failure: is every node still there?

# --- Environment --------------------------------------------------------------------------------------------
cd -- /home/ada/project

# --- Rendezvous ---------------------------------------------------------------------------------------------
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST" # the first host, under its name in the scheduler
dlrun_take_ports 20000 29999 1 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_launch dlrun_openmpi 4 /opt/openmpi/bin/mpirun -np 8 --hostfile "$DLRUN_HOSTS"-x4 --map-by ppr:4:node \
  --bind-to none --mca btl '^openib' bash -p "$DLRUN_JOB_DIR/rank.sh" rank
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
