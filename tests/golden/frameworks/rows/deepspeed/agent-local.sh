dlrun_launch dlrun_local 1 bash -p "$DLRUN_JOB_DIR/rank.sh" agent

export DS_ACCELERATOR=cpu # there are no GPUs [DeepSpeed, accelerator/real_accelerator.py]
dlrun_run python -m deepspeed.launcher.runner --hostfile "$(dlrun_hostfile 1 1)" --no_ssh --node_rank "$DLRUN_NODE_RANK" --master_addr "$DLRUN_MASTER_ADDR" --master_port "$DLRUN_MASTER_PORT" --no_local_rank --no_python bash -p "$DLRUN_JOB_DIR/bind.sh" python examples/deepspeed/train.py --steps 60
