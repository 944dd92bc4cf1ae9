dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first
DLRUN_MASTER_IP=$(dlrun_numeric "$DLRUN_MASTER_ADDR")
dlrun_launch dlrun_local 1 bash -p "$DLRUN_JOB_DIR/rank.sh" agent

DLRUN_OWN_ADDRESS=$(dlrun_numeric "127.0.0.1")
export DLRUN_OWN_ADDRESS # under which other nodes reach this one
export PADDLE_DISTRI_BACKEND=gloo # there are no GPUs [Paddle 3.3, paddle/distributed/launch/context/args_envs.py]
dlrun_run python -m paddle.distributed.launch --master "$DLRUN_MASTER_IP":"$DLRUN_MASTER_PORT" --nnodes 1 --nproc_per_node 1 --rank "$DLRUN_NODE_RANK" --host "$DLRUN_OWN_ADDRESS" --job_id "$DLRUN_RUN_ID" --log_dir "$DLRUN_RUN_DIR"/logs/paddle-"$DLRUN_NODE_RANK" examples/paddle/train.py --steps 60
