dlrun_take_ports 20000 29999 1 # from, to, how many: DLRUN_MASTER_PORT is the first
export OMP_NUM_THREADS=48 # 48 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so a killed rank loses no lines [Python documentation, Command line and environment]
# 2 × shard, 1 on each node
dlrun_launch dlrun_ssh "$DLRUN_HOSTS" 1 2 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" shard

dlrun_run python /software/caffe2/resnet50_trainer.py --train_data /software/imagenet --num_shards 2 --shard_id "$DLRUN_NODE_RANK" --run_id "$DLRUN_RUN_ID" --file_store_path "$DLRUN_RUN_DIR" --distributed_interfaces eth0
