#!/bin/bash
#SBATCH --job-name=judged
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=8
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=15
#SBATCH --gres=gpu:a100:4
#SBATCH --mem=491520M
#SBATCH --account=abc123
#SBATCH --partition=gpu
#SBATCH --time=04:00:00
#SBATCH hetjob
#SBATCH --job-name=judged
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=128
#SBATCH --mem=245760M
#SBATCH --account=abc123
#SBATCH --partition=cpu
#SBATCH --time=04:00:00

# judged on site gpus: 4 nodes for 2 roles: train (2 nodes), judge (2 nodes). Written by dlrun VERSION.
# Each role is a job of its own in roles/NAME, which runs on its part of the nodes: its commands are in roles/NAME/job.sh.
# Edit these files and submit this one from its own directory: `sbatch job.sh`. The nodes need bash and Python, not dlrun:
# roles.py starts the roles in the order of their needs and ends them (roles.json). Why each directive is there: `dlrun explain`.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/slurm-roles-on-two-types # the job directory: this script, lib/, plan.json, logs/, roles/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source slurm-components coordinator roles # parts of lib/ that this job uses

export DLRUN_JOB_ID="${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}" # the scheduler's name for this job
export DLRUN_RESTART="${SLURM_RESTART_COUNT:-0}" # how often the job was started before
dlrun_granted_hosts dlrun_component_hosts
unset SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_CPU_BIND SLURM_TRES_PER_TASK SLURM_EXPORT_ENV SLURM_NTASKS_PER_NODE # would change where programs start
dlrun_roles srun '--het-group={component}' --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block \
  --kill-on-bad-exit=1 --export=ALL --cpu-bind=none --nodelist="$DLRUN_FIRST_HOST" --overlap --mem=0 # runs the roles; the words start a program on a node, to find a free port there
