dlrun_launch dlrun_local 1 bash -p "$DLRUN_JOB_DIR/rank.sh" shard

dlrun_run python /software/caffe2/resnet50_trainer.py --train_data /software/imagenet --num_shards 1 --shard_id "$DLRUN_NODE_RANK" --run_id "$DLRUN_RUN_ID" --file_store_path "$DLRUN_RUN_DIR"
