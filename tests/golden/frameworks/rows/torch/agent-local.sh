dlrun_launch dlrun_local 1 bash -p "$DLRUN_JOB_DIR/rank.sh" agent

dlrun_run python -m torch.distributed.run --nnodes=1 --nproc-per-node=1 --max-restarts=0 --node-rank="$DLRUN_NODE_RANK" --master-addr="$DLRUN_MASTER_ADDR" --master-port="$DLRUN_MASTER_PORT" --no-python bash -p "$DLRUN_JOB_DIR/bind.sh" python examples/torch/train.py --steps 60
