# === role {"name": "genrm", "nodes": 1, "needs": [], "ends": false, "restarts": 0, "ports": 1, "ready": {"http": "/health", "status": 200}, "within": 3600}
export NCCL_DEBUG=WARN # logs an explicit message when a call fails, and nothing else [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export NCCL_IB_HCA='=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11' # site dgx-h100 sets it: The eight compute HCAs (GPU 0..7 in this order); the others are storage/management. Needed only if NCCL picks a wrong one. [DGX H100] [NVIDIA DGX H100 User Guide, Table 6 Network Modules (https://www.easymanua.ls/nvidia/dgx-h100/manual?p=19)]
export OMP_NUM_THREADS=1 # set by the spec, spec.yaml:10:93 (dlrun would have set 112: 112 cores / 1 rank)
dlrun_expect_image /lustre/images/vllm.sif # the same on each node
dlrun_launch srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --nodelist="$DLRUN_CHOSEN_HOSTS" bash -p "$DLRUN_JOB_DIR/rank.sh" rank

dlrun_show_inside PYTHONUNBUFFERED NCCL_DEBUG NCCL_IB_HCA OMP_NUM_THREADS # the image may have set some of them itself
dlrun_in_container --nv --bind "${DLRUN_JOB_DIR%/roles/*}" --bind /home/ada/project --pwd /home/ada/project /lustre/images/vllm.sif # the command runs in this image
dlrun_run vllm serve /lustre/models/genrm --served-model-name model --tensor-parallel-size 8 --port "${DLRUN_ROLE_GENRM_PORT}" --trust-remote-code --dtype bfloat16 --max-num-seqs 256 --enable-prefix-caching --reasoning-parser nemotron_v3

# === role {"name": "nl2bash", "nodes": 1, "needs": [], "ends": false, "restarts": 0, "ports": 1, "ready": {"http": "/health", "status": 200}, "within": 3600}
export NCCL_DEBUG=WARN # logs an explicit message when a call fails, and nothing else [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export NCCL_IB_HCA='=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11' # site dgx-h100 sets it: The eight compute HCAs (GPU 0..7 in this order); the others are storage/management. Needed only if NCCL picks a wrong one. [DGX H100] [NVIDIA DGX H100 User Guide, Table 6 Network Modules (https://www.easymanua.ls/nvidia/dgx-h100/manual?p=19)]
export OMP_NUM_THREADS=1 # set by the spec, spec.yaml:17:93 (dlrun would have set 112: 112 cores / 1 rank)
dlrun_expect_image /lustre/images/vllm.sif # the same on each node
dlrun_launch srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --nodelist="$DLRUN_CHOSEN_HOSTS" bash -p "$DLRUN_JOB_DIR/rank.sh" rank

dlrun_show_inside PYTHONUNBUFFERED NCCL_DEBUG NCCL_IB_HCA OMP_NUM_THREADS # the image may have set some of them itself
dlrun_in_container --nv --bind "${DLRUN_JOB_DIR%/roles/*}" --bind /home/ada/project --pwd /home/ada/project /lustre/images/vllm.sif # the command runs in this image
dlrun_run vllm serve /lustre/models/nl2bash --served-model-name model --tensor-parallel-size 8 --port "${DLRUN_ROLE_NL2BASH_PORT}" --dtype bfloat16 --max-num-seqs 256 --enable-prefix-caching --enable-auto-tool-choice --tool-call-parser hermes

# === role {"name": "train", "nodes": 4, "needs": ["genrm", "nl2bash"], "ends": true, "restarts": 0, "ports": 1, "ready": null, "within": null}
DLRUN_MASTER_IP=$(dlrun_numeric "$DLRUN_MASTER_ADDR")
export OMP_NUM_THREADS=14 # 112 cores / 8 ranks [OpenMP 5.2, chapter 21]
export NCCL_DEBUG=WARN # logs an explicit message when a call fails, and nothing else [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export NCCL_IB_HCA='=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11' # site dgx-h100 sets it: The eight compute HCAs (GPU 0..7 in this order); the others are storage/management. Needed only if NCCL picks a wrong one. [DGX H100] [NVIDIA DGX H100 User Guide, Table 6 Network Modules (https://www.easymanua.ls/nvidia/dgx-h100/manual?p=19)]
export RAY_ENABLE_UV_RUN_RUNTIME_ENV=0 # set by the spec, spec.yaml:30:110
dlrun_expect_image /lustre/images/nemo-rl.sif # the same on each node
# 4 × node, 1 on each node
dlrun_service srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --overlap --nodelist="$DLRUN_CHOSEN_HOSTS" bash -p "$DLRUN_JOB_DIR/rank.sh" node
# 1 × driver, on the first node
dlrun_launch srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --overlap --nodelist="$DLRUN_FIRST_HOST" bash -p "$DLRUN_JOB_DIR/rank.sh" driver

DLRUN_OWN_ADDRESS=$(dlrun_numeric "$DLRUN_HOST")
export DLRUN_OWN_ADDRESS # under which other nodes reach this one
case $1 in
node)
  export RAY_NUM_REDIS_GET_RETRIES=120 # the seconds for which nodes wait for the head [Ray, _private/ray_constants.py]
  dlrun_show_inside OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_IB_HCA RAY_ENABLE_UV_RUN_RUNTIME_ENV RAY_NUM_REDIS_GET_RETRIES RAY_ADDRESS # the image may have set some of them itself
  dlrun_in_container --nv --bind "${DLRUN_JOB_DIR%/roles/*}" --bind /home/ada/project --pwd /home/ada/project /lustre/images/nemo-rl.sif # the command runs in this image
  if ((DLRUN_RANK == 0)); then
    dlrun_run ray start --head --port="$DLRUN_MASTER_PORT" --temp-dir=/tmp/ray-"$UID-$DLRUN_MASTER_PORT" --include-dashboard=false --node-ip-address="$DLRUN_OWN_ADDRESS" --num-cpus="$(env -u OMP_NUM_THREADS nproc)" --num-gpus=8 --disable-usage-stats --block
  else
    dlrun_run ray start --address="$DLRUN_MASTER_IP":"$DLRUN_MASTER_PORT" --node-ip-address="$DLRUN_OWN_ADDRESS" --num-cpus="$(env -u OMP_NUM_THREADS nproc)" --num-gpus=8 --disable-usage-stats --block
  fi
  ;;
driver)
  export RAY_ADDRESS="$DLRUN_MASTER_IP":"$DLRUN_MASTER_PORT" # the head node of this job [Ray documentation, Launching an on-premise cluster]
  dlrun_show_inside OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_IB_HCA RAY_ENABLE_UV_RUN_RUNTIME_ENV RAY_NUM_REDIS_GET_RETRIES RAY_ADDRESS # the image may have set some of them itself
  dlrun_in_container --nv --bind "${DLRUN_JOB_DIR%/roles/*}" --bind /home/ada/project --pwd /home/ada/project /lustre/images/nemo-rl.sif # the command runs in this image
  dlrun_run bash -c 'until [[ $(ray status --address="$RAY_ADDRESS" 2>/dev/null | grep -c "^ *[0-9]* node_") -ge 4 ]]; do sleep 1; done; exec "$@"' ray python examples/nemo_gym/run_grpo_nemo_gym.py --config examples/nemo_gym/nemotron-3-ultra/student_rlvr1.yaml cluster.num_nodes=4 cluster.gpus_per_node=8 ++env.nemo_gym.genrm_model.responses_api_models.genrm_model.base_url=http://"${DLRUN_ROLE_GENRM_ADDRESS}"/v1 env.nemo_gym.genrm_model.responses_api_models.genrm_model.model=model ++env.nemo_gym.nl2bash_judge_model.responses_api_models.local_vllm_model.base_url=http://"${DLRUN_ROLE_NL2BASH_ADDRESS}"/v1 env.nemo_gym.nl2bash_judge_model.responses_api_models.local_vllm_model.model=model
  ;;
esac
