# === role {"name": "vllm", "nodes": 1, "needs": [], "ends": false, "restarts": 0, "ports": 1, "ready": {"http": "/health", "status": 200}, "within": 1800}
export NCCL_DEBUG=WARN # logs an explicit message when a call fails, and nothing else [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export OMP_NUM_THREADS=1 # set by the spec, spec.yaml:10:67 (dlrun would have set 38: 38 cores / 1 rank)
dlrun_launch srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --nodelist="$DLRUN_CHOSEN_HOSTS" bash -p "$DLRUN_JOB_DIR/rank.sh" rank

dlrun_run vllm serve /lustre/models/llama-70b --served-model-name llama-70b --tensor-parallel-size 8 --port "${DLRUN_ROLE_VLLM_PORT}"

# === role {"name": "mmlu", "nodes": 1, "needs": ["vllm"], "ends": true, "restarts": 0, "beside": "vllm", "ports": 1, "ready": null, "within": null}
dlrun_launch srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --nodelist="$DLRUN_CHOSEN_HOSTS" bash -p "$DLRUN_JOB_DIR/rank.sh" rank

dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run lm-eval run --model local-completions --tasks mmlu --output_path /lustre/results/mmlu --model_args model=llama-70b,tokenizer=/lustre/models/llama-70b,base_url=http://"${DLRUN_ROLE_VLLM_ADDRESS}"/v1/completions,num_concurrent=32,max_retries=3

# === role {"name": "gsm8k", "nodes": 1, "needs": ["vllm"], "ends": true, "restarts": 0, "beside": "vllm", "ports": 1, "ready": null, "within": null}
dlrun_launch srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --nodelist="$DLRUN_CHOSEN_HOSTS" bash -p "$DLRUN_JOB_DIR/rank.sh" rank

dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run lm-eval run --model local-completions --tasks gsm8k --output_path /lustre/results/gsm8k --model_args model=llama-70b,tokenizer=/lustre/models/llama-70b,base_url=http://"${DLRUN_ROLE_VLLM_ADDRESS}"/v1/completions,num_concurrent=32,max_retries=3,tokenized_requests=False
