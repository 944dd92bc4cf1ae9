#!/bin/bash
#SBATCH --job-name=resnet50
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=4
#SBATCH --ntasks=16
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=15
#SBATCH --gres=gpu:a100:4
#SBATCH --mem=0
#SBATCH --account=abc123
#SBATCH --partition=gpu
#SBATCH --time=04:00:00

# resnet50 on site gpus: 4 nodes, 16 ranks, 4 on each node, 4 GPUs on each node. Written by dlrun VERSION.
# Each rank runs: python train.py --batch 64 --lr 0.4 --data /scratch/datasets/imagenet
# Edit this file and submit it from its own directory: `sbatch job.sh`. The nodes need bash, not dlrun: the functions
# are in lib/, rank.sh is what each process runs. Why each directive and variable is there: `dlrun explain`, plan.json.

POSIXLY_CORRECT=1; set -euo pipefail # functions inherited from the submitting shell cannot replace these commands
export DLRUN_JOB_DIR=/home/ada/jobs/slurm-srun-gpus # the job directory: this script, lib/, plan.json, logs/
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source caches compiled # parts of lib/ that this job uses

# --- Job and nodes ------------------------------------------------------------------------------------------
export DLRUN_JOB_ID="${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}" # the scheduler's name for this job
export DLRUN_RESTART="${SLURM_RESTART_COUNT:-0}" # how often the job was started before: a program may go on from its checkpoint
export DLRUN_NODES=4 # how many nodes run ranks
dlrun_start scontrol show hostnames "$SLURM_JOB_NODELIST" # makes logs/ and state.json, cleans up at the end

# --- Environment --------------------------------------------------------------------------------------------
cd -- /home/ada/project
unset SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_CPU_BIND SLURM_TRES_PER_TASK SLURM_EXPORT_ENV SLURM_NTASKS_PER_NODE # would change what srun does
set +u # module files and activation scripts may read unset variables
source /etc/profile.d/lmod.sh
cd -- /home/ada/project; set +u # the site's lines may have left it, and ended that
module purge
module load site/2026 gcc/13 cuda/12.6
source /home/ada/envs/torch/bin/activate
dlrun_own_shell # options, traps and names of commands are as before those lines

# --- Rendezvous ---------------------------------------------------------------------------------------------
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST-ib0" # the first host, under its name in the scheduler, with `-ib0` appended
dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first

# --- Variables of every rank --------------------------------------------------------------------------------
export OMP_NUM_THREADS=15 # 60 cores / 4 ranks [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so that a killed rank loses no lines [Python documentation, Command line and environment]
export CUDA_DEVICE_ORDER=PCI_BUS_ID # GPUs are numbered as in the plan
export NCCL_SOCKET_IFNAME='=ib0' # bootstrap and data over sockets use exactly the interfaces in the site profile (`=`: no prefixes); NCCL by itself may select an interface that other nodes cannot reach [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export DLRUN_DATA_IMAGENET=/scratch/datasets/imagenet # data set `imagenet`: there is no node-local storage in the site profile
export UCX_TLS=rc,sm # set by site gpus
export NCCL_DEBUG=WARN # set by the spec, spec.yaml:14:27
export NCCL_IB_HCA=mlx5_0,mlx5_1 # set by the spec, spec.yaml:14:46 (dlrun would have set =mlx5_0,mlx5_1: site gpus sets it: Select compute HCAs and keep storage/Ethernet HCAs out. Without '=' the token is a prefix: mlx5_1 also matches mlx5_10..19)
dlrun_keep_compiled "${TMPDIR:-/tmp}" 36f7bd6d7e5f 1 '$SLURM_PROCID' srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none # what was compiled, in the user's store

# --- Launch -------------------------------------------------------------------------------------------------
dlrun_launch srun --nodes=4 --ntasks=16 --ntasks-per-node=4 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" rank
dlrun_wait # until the ranks have ended; exits with the code of the one that failed first
