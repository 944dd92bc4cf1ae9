#!/bin/bash
# secretive, each process (launcher srun starts it, unbound, as rank.sh ROLE): who it is, its cores, variables and command.

set -uo pipefail
source "$DLRUN_JOB_DIR/lib/rank.sh"
dlrun_identify "$1" "$SLURM_PROCID" "$SLURM_LOCALID" "${SLURM_STEP_TASKS_PER_NODE-}" "${SLURM_NODEID-}" 2 2 # role, rank, local rank, ranks on this node, node, planned ranks on a node, ranks

# --- Cores: on shared nodes the granted cores are known only when the job starts
dlrun_share_cores # an equal part of the job's cores on this node
export OMP_NUM_THREADS="$DLRUN_THREADS" # one per core of the rank [OpenMP 5.2, chapter 21]
dlrun_measure # beside the program: records what the ranks of this node use, for `dlrun usage`
dlrun_caches "${TMPDIR:-/tmp}" bdb606664bd8 no TORCHINDUCTOR_CACHE_DIR=inductor TRITON_CACHE_DIR=triton TORCH_EXTENSIONS_DIR=torch_extensions:.cache/torch_extensions # private directories of this node, where nothing else is set

# --- Secrets: read now, by this process alone; never written, never printed
HF_TOKEN=${MY_HF_TOKEN-}; [[ -n $HF_TOKEN ]] || dlrun_missing_secret HF_TOKEN 'the variable MY_HF_TOKEN is not set in the job'
export HF_TOKEN # a secret: from here the program alone has it
WANDB_API_KEY=$(cat -- '/home/ada/.wandb key') || dlrun_missing_secret WANDB_API_KEY '/home/ada/.wandb key'
export WANDB_API_KEY # a secret: from here the program alone has it
VAULT=$(pass show 'it'"'"'s mine') || dlrun_missing_secret VAULT 'its command failed'
export VAULT # a secret: from here the program alone has it

# --- torch: variables of each process, and the command

# --- Trackers: the same names whenever the job starts again; what is set already is kept
dlrun_default TENSORBOARD_LOGGING_DIR "$DLRUN_RUN_DIR"/tensorboard # a directory that all starts of a run share; transformers 5 reads it, other programs pass it to SummaryWriter [https://github.com/huggingface/transformers/blob/main/src/transformers/integrations/integration_utils.py]
if ((DLRUN_RANK == 0)); then
  dlrun_track 1ac5c2989394 # sets DLRUN_TRACK_ID, DLRUN_PLAN and DLRUN_COMMIT
  dlrun_default WANDB_RUN_ID "$DLRUN_TRACK_ID" # every start of the job continues one run, each point of a sweep its own [https://docs.wandb.ai/guides/track/environment-variables/]
  dlrun_default WANDB_RESUME allow # continue the run of this id, or begin it [https://docs.wandb.ai/guides/track/environment-variables/]
  dlrun_default WANDB_NAME "$DLRUN_TRACK_ID" # the run is shown under the name of the job directory [https://docs.wandb.ai/guides/track/environment-variables/]
  dlrun_default WANDB_TAGS job:"$DLRUN_JOB_ID",site:plain,plan:"$DLRUN_PLAN""${DLRUN_COMMIT:+,commit:$DLRUN_COMMIT}" # runs can be found by job, site, plan and commit [https://docs.wandb.ai/guides/track/environment-variables/]
fi
export MASTER_ADDR="$DLRUN_MASTER_ADDR" # rank 0's node, by the site's address rule [PyTorch documentation, torch.distributed]
export MASTER_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on rank 0's node [PyTorch documentation, torch.distributed]
export WORLD_SIZE=2 # 1 node × 2 ranks [PyTorch documentation, torch.distributed]
export RANK="$DLRUN_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_RANK="$DLRUN_LOCAL_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_WORLD_SIZE="$DLRUN_LOCAL_SIZE" # ranks on this node [PyTorch documentation, torch.distributed]
export GROUP_RANK="$DLRUN_NODE_RANK" # node index; torchrun's name for it [PyTorch documentation, torch.distributed]
dlrun_run python train.py
