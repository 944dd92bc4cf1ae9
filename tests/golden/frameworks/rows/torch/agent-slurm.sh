dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first
dlrun_launch srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" agent

export GLOO_SOCKET_IFNAME=ib0 # Gloo uses the site's fabric instead of the interface of the host name [PyTorch documentation, torch.distributed]
dlrun_run python -m torch.distributed.run --nnodes=2 --nproc-per-node=1 --max-restarts=0 --node-rank="$DLRUN_NODE_RANK" --master-addr="$DLRUN_MASTER_ADDR" --master-port="$DLRUN_MASTER_PORT" --no-python bash -p "$DLRUN_JOB_DIR/bind.sh" python examples/torch/train.py --steps 60
