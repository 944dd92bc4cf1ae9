take_ports 1
export OMP_NUM_THREADS=8 # 8 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # lines reach the log when they are printed, and a killed rank loses none [Python documentation, Command line and environment]
export DLRUN_LAUNCHED # when, in ns by this node's clock, so that after a failure those of others can be put right
# 1 × shard, 1 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_local 1 bash "$DLRUN_JOB_DIR/rank.sh" shard </dev/null &

command=()
case $role in
shard)
  command=(python /software/caffe2/resnet50_trainer.py --train_data /software/imagenet --num_shards 1 --shard_id "$DLRUN_NODE_RANK" --run_id "$DLRUN_RUN_ID" --file_store_path "$DLRUN_RUN_DIR")
  ;;
esac
