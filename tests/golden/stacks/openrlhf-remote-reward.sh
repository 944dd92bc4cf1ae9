# === role {"name": "reward", "nodes": 1, "needs": [], "ends": false, "restarts": 2, "ports": 1, "ready": {"port": true}, "within": 1800}
export NCCL_DEBUG=WARN # logs an explicit message when a call fails, and nothing else [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export NCCL_IB_HCA='=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11' # site dgx-h100 sets it: The eight compute HCAs (GPU 0..7 in this order); the others are storage/management. Needed only if NCCL picks a wrong one. [DGX H100] [NVIDIA DGX H100 User Guide, Table 6 Network Modules (https://www.easymanua.ls/nvidia/dgx-h100/manual?p=19)]
dlrun_launch srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --nodelist="$DLRUN_CHOSEN_HOSTS" bash -p "$DLRUN_JOB_DIR/rank.sh" rank

dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run python -m openrlhf.cli.serve_rm --reward.model_name_or_path OpenRLHF/Llama-3-8b-rm-700k --port "${DLRUN_ROLE_REWARD_PORT}" --ds.param_dtype bf16 --ds.attn_implementation flash_attention_2 --reward.normalize_enable --data.max_len 8192 --batch_size 16

# === role {"name": "train", "nodes": 4, "needs": ["reward"], "ends": true, "restarts": 0, "ports": 1, "ready": null, "within": null}
DLRUN_MASTER_IP=$(dlrun_numeric "$DLRUN_MASTER_ADDR")
export OMP_NUM_THREADS=14 # 112 cores / 8 ranks [OpenMP 5.2, chapter 21]
export NCCL_DEBUG=WARN # logs an explicit message when a call fails, and nothing else [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export NCCL_IB_HCA='=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11' # site dgx-h100 sets it: The eight compute HCAs (GPU 0..7 in this order); the others are storage/management. Needed only if NCCL picks a wrong one. [DGX H100] [NVIDIA DGX H100 User Guide, Table 6 Network Modules (https://www.easymanua.ls/nvidia/dgx-h100/manual?p=19)]
# 4 × node, 1 on each node
dlrun_service srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --overlap --nodelist="$DLRUN_CHOSEN_HOSTS" bash -p "$DLRUN_JOB_DIR/rank.sh" node
until [[ $(ray status --address="$DLRUN_MASTER_IP:$DLRUN_MASTER_PORT" 2>/dev/null | grep -c "^ *[0-9]* node_") -ge 4 ]]; do dlrun_still_waiting node; done
# 1 × driver, on the first node
dlrun_launch srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --overlap --nodelist="$DLRUN_FIRST_HOST" bash -p "$DLRUN_JOB_DIR/rank.sh" driver

DLRUN_OWN_ADDRESS=$(dlrun_numeric "$DLRUN_HOST")
export DLRUN_OWN_ADDRESS # under which other nodes reach this one
case $1 in
node)
  export RAY_NUM_REDIS_GET_RETRIES=120 # the seconds for which nodes wait for the head [Ray, _private/ray_constants.py]
  if ((DLRUN_RANK == 0)); then
    dlrun_run ray start --head --port="$DLRUN_MASTER_PORT" --temp-dir=/tmp/ray-"$UID-$DLRUN_MASTER_PORT" --include-dashboard=false --node-ip-address="$DLRUN_OWN_ADDRESS" --num-cpus="$(env -u OMP_NUM_THREADS nproc)" --num-gpus=8 --disable-usage-stats --block
  else
    dlrun_run ray start --address="$DLRUN_MASTER_IP":"$DLRUN_MASTER_PORT" --node-ip-address="$DLRUN_OWN_ADDRESS" --num-cpus="$(env -u OMP_NUM_THREADS nproc)" --num-gpus=8 --disable-usage-stats --block
  fi
  ;;
driver)
  export RAY_ADDRESS="$DLRUN_MASTER_IP":"$DLRUN_MASTER_PORT" # the head node of this job [Ray documentation, Launching an on-premise cluster]
  dlrun_run python -m openrlhf.cli.train_ppo_ray --reward.remote_url http://"${DLRUN_ROLE_REWARD_ADDRESS}"/get_reward --ref.num_nodes 1 --ref.num_gpus_per_node 8 --critic.num_nodes 1 --critic.num_gpus_per_node 8 --actor.num_nodes 1 --actor.num_gpus_per_node 8 --vllm.num_engines 4 --vllm.tensor_parallel_size 2 --actor.model_name_or_path OpenRLHF/Llama-3-8b-sft-mixture --data.prompt_dataset OpenRLHF/prompt-collection-v0.1 --data.input_key context_messages --data.apply_chat_template --ckpt.output_dir /lustre/runs/ppo
  ;;
esac
