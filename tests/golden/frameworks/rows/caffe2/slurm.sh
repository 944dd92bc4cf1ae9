dlrun_launch srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" shard

dlrun_run python /software/caffe2/resnet50_trainer.py --train_data /software/imagenet --num_shards 2 --shard_id "$DLRUN_NODE_RANK" --run_id "$DLRUN_RUN_ID" --file_store_path "$DLRUN_RUN_DIR" --distributed_interfaces ib0
