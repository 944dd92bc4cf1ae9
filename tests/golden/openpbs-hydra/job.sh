#!/bin/bash
#PBS -N chunks
#PBS -S /bin/bash
#PBS -o logs/job.log
#PBS -j oe
#PBS -k doe
#PBS -r n
#PBS -l select=3:ncpus=32:mpiprocs=2:ompthreads=16:ngpus=4
#PBS -l place=scatter:exclhost
#PBS -q workq
#PBS -A proj1
#PBS -l walltime=01:00:00
#PBS -l filesystems=home:eagle

# chunks on site pbs: 3 nodes, 6 ranks, 2 on each node, 4 GPUs on each node. Written by dlrun VERSION.
# Each rank runs: ./solver
# Edit this file and submit it from its own directory: `qsub job.sh`. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/openpbs-hydra # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source pbs resubmit lost-nodes # parts of lib/ that this job uses

# --- Job and nodes ------------------------------------------------------------------------------------------
export DLRUN_JOB_ID="${PBS_JOBID/\[*\]/[]}" # the scheduler's name for this job
DLRUN_RESTART="$(dlrun_pbs_restarts run_count)" || true
export DLRUN_RESTART # how often the job was started before: a program may go on from its checkpoint
export DLRUN_NODES=3 # how many nodes run ranks
dlrun_start awk '!seen[$0]++' "$PBS_NODEFILE" # makes logs/ and state.json, cleans up at the end
dlrun_ask_nodes ssh -o BatchMode=yes # after a failure: is every node still there?

# --- Environment --------------------------------------------------------------------------------------------
cd -- /home/ada/project
set +u # module files and activation scripts may read unset variables
module reset
module load mpich/4.2
dlrun_own_shell # options, traps and names of commands are as before those lines

# --- Rendezvous ---------------------------------------------------------------------------------------------
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST" # the first host, under its name in the scheduler
dlrun_take_ports 20000 29999 1 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export OMP_NUM_THREADS=16 # 32 cores / 2 ranks [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]
export CUDA_DEVICE_ORDER=PCI_BUS_ID # GPUs are numbered as in the plan

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_launch mpiexec.hydra -f "$DLRUN_HOSTS" -ppn 2 -n 6 -bind-to none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
