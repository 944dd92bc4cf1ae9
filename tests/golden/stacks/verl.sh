DLRUN_MASTER_IP=$(dlrun_numeric "$DLRUN_MASTER_ADDR")
export OMP_NUM_THREADS=14 # 112 cores / 8 ranks [OpenMP 5.2, chapter 21]
export NCCL_DEBUG=WARN # logs an explicit message when a call fails, and nothing else [NVIDIA/nccl:docs/userguide/source/env.rst@5067397c]
export NCCL_IB_HCA='=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11' # site dgx-h100 sets it: The eight compute HCAs (GPU 0..7 in this order); the others are storage/management. Needed only if NCCL picks a wrong one. [DGX H100] [NVIDIA DGX H100 User Guide, Table 6 Network Modules (https://www.easymanua.ls/nvidia/dgx-h100/manual?p=19)]
export DLRUN_DATA_GSM8K=/lustre/data/gsm8k # data set `gsm8k`: from the spec
dlrun_expect_image /lustre/images/verl.sif # the same on each node
# 4 × node, 1 on each node
dlrun_service srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --overlap bash -p "$DLRUN_JOB_DIR/rank.sh" node
# 1 × driver, on the first node
dlrun_launch srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --overlap --nodelist="$DLRUN_FIRST_HOST" bash -p "$DLRUN_JOB_DIR/rank.sh" driver

DLRUN_OWN_ADDRESS=$(dlrun_numeric "$DLRUN_HOST")
export DLRUN_OWN_ADDRESS # under which other nodes reach this one
case $1 in
node)
  export RAY_NUM_REDIS_GET_RETRIES=120 # the seconds for which nodes wait for the head [Ray, _private/ray_constants.py]
  dlrun_show_inside OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_IB_HCA DLRUN_DATA_GSM8K RAY_NUM_REDIS_GET_RETRIES RAY_ADDRESS # the image may have set some of them itself
  dlrun_in_container --nv --bind "$DLRUN_JOB_DIR" --bind /home/ada/project --bind /lustre/data/gsm8k --pwd /home/ada/project /lustre/images/verl.sif # the command runs in this image
  if ((DLRUN_RANK == 0)); then
    dlrun_run ray start --head --port="$DLRUN_MASTER_PORT" --temp-dir=/tmp/ray-"$UID-$DLRUN_MASTER_PORT" --include-dashboard=false --node-ip-address="$DLRUN_OWN_ADDRESS" --num-cpus="$(env -u OMP_NUM_THREADS nproc)" --num-gpus=8 --disable-usage-stats --block
  else
    dlrun_run ray start --address="$DLRUN_MASTER_IP":"$DLRUN_MASTER_PORT" --node-ip-address="$DLRUN_OWN_ADDRESS" --num-cpus="$(env -u OMP_NUM_THREADS nproc)" --num-gpus=8 --disable-usage-stats --block
  fi
  ;;
driver)
  export RAY_ADDRESS="$DLRUN_MASTER_IP":"$DLRUN_MASTER_PORT" # the head node of this job [Ray documentation, Launching an on-premise cluster]
  dlrun_show_inside OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_IB_HCA DLRUN_DATA_GSM8K RAY_NUM_REDIS_GET_RETRIES RAY_ADDRESS # the image may have set some of them itself
  dlrun_in_container --nv --bind "$DLRUN_JOB_DIR" --bind /home/ada/project --bind /lustre/data/gsm8k --pwd /home/ada/project /lustre/images/verl.sif # the command runs in this image
  dlrun_run bash -c 'until [[ $(ray status --address="$RAY_ADDRESS" 2>/dev/null | grep -c "^ *[0-9]* node_") -ge 4 ]]; do sleep 1; done; exec "$@"' ray python -m verl.trainer.main_ppo algorithm.adv_estimator=gae data.train_files=/lustre/data/gsm8k/train.parquet data.val_files=/lustre/data/gsm8k/test.parquet actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct trainer.n_gpus_per_node=8 trainer.nnodes=4
  ;;
esac
