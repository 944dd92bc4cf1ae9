# === role {"name": "vllm", "nodes": 1, "needs": [], "ends": false, "restarts": 0, "ports": 1, "ready": {"http": "/health/", "status": 200}, "within": 1800}
export NCCL_DEBUG=WARN # logs an explicit message when a call fails, and nothing else [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export NCCL_IB_HCA='=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11' # site dgx-h100 sets it: The eight compute HCAs (GPU 0..7 in this order); the others are storage/management. Needed only if NCCL picks a wrong one. [DGX H100] [NVIDIA DGX H100 User Guide, Table 6 Network Modules (https://www.easymanua.ls/nvidia/dgx-h100/manual?p=19)]
export OMP_NUM_THREADS=1 # set by the spec, spec.yaml:11:48 (dlrun would have set 112: 112 cores / 1 rank)
dlrun_launch srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --nodelist="$DLRUN_CHOSEN_HOSTS" bash -p "$DLRUN_JOB_DIR/rank.sh" rank

dlrun_run trl vllm-serve --model Qwen/Qwen2.5-1.5B-Instruct --revision main --tensor_parallel_size 1 --data_parallel_size 8 --port "${DLRUN_ROLE_VLLM_PORT}"

# === role {"name": "train", "nodes": 2, "needs": ["vllm"], "ends": true, "restarts": 0, "ports": 1, "copies": 5, "ready": null, "within": null}
dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first
export OMP_NUM_THREADS=14 # 112 cores / 8 ranks [OpenMP 5.2, chapter 21]
export NCCL_DEBUG=WARN # logs an explicit message when a call fails, and nothing else [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export NCCL_IB_HCA='=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11' # site dgx-h100 sets it: The eight compute HCAs (GPU 0..7 in this order); the others are storage/management. Needed only if NCCL picks a wrong one. [DGX H100] [NVIDIA DGX H100 User Guide, Table 6 Network Modules (https://www.easymanua.ls/nvidia/dgx-h100/manual?p=19)]
dlrun_launch srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --nodelist="$DLRUN_CHOSEN_HOSTS" bash -p "$DLRUN_JOB_DIR/rank.sh" agent

dlrun_run python -m accelerate.commands.launch --same_network --deepspeed_multinode_launcher standard --num_machines 2 --machine_rank "$DLRUN_NODE_RANK" --num_processes 16 --main_process_ip "$DLRUN_MASTER_ADDR" --main_process_port "$DLRUN_MASTER_PORT" --config_file recipes/accelerate_configs/zero2.yaml --gradient_accumulation_steps 4 --no_python bash -p "$DLRUN_JOB_DIR/bind.sh" python src/open_r1/grpo.py --config recipes/Qwen2.5-1.5B-Instruct/grpo/config_demo.yaml --vllm_server_host="${DLRUN_ROLE_VLLM_HOST}" --vllm_server_port="${DLRUN_ROLE_VLLM_PORT}"
