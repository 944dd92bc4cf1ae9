take_ports() { # COUNT: a block of free ports, reserved against other jobs of yours on this node; sets port
take_ports 1
# 2 × shard, 1 on each node
start_ssh "$run_dir"/hosts 1 2 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" shard </dev/null &

command=()
case $role in
shard)
  command=(python /software/caffe2/resnet50_trainer.py --train_data /software/imagenet --num_shards 2 --shard_id "$DLRUN_NODE_RANK" --run_id "$DLRUN_RUN_ID" --file_store_path "$DLRUN_RUN_DIR" --distributed_interfaces eth0)
  ;;
esac
