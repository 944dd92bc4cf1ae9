dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first
dlrun_launch srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" agent

export GLOO_SOCKET_IFNAME=ib0 # Gloo uses the site's fabric instead of the interface of the host name [PyTorch documentation, torch.distributed]
export DS_ACCELERATOR=cpu # there are no GPUs [DeepSpeed, accelerator/real_accelerator.py]
dlrun_run python -m deepspeed.launcher.runner --hostfile "$(dlrun_hostfile 1 2)" --no_ssh --node_rank "$DLRUN_NODE_RANK" --master_addr "$DLRUN_MASTER_ADDR" --master_port "$DLRUN_MASTER_PORT" --no_local_rank --no_python bash -p "$DLRUN_JOB_DIR/bind.sh" python examples/deepspeed/train.py --steps 60
