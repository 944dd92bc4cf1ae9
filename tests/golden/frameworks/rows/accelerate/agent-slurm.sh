dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first
dlrun_launch srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" agent

export GLOO_SOCKET_IFNAME=ib0 # Gloo uses the site's fabric instead of the interface of the host name [PyTorch documentation, torch.distributed]
export ACCELERATE_USE_CPU=true # there are no GPUs [Accelerate documentation, Launching on CPUs]
dlrun_run python -m accelerate.commands.launch --multi_gpu --mixed_precision no --dynamo_backend no --same_network --deepspeed_multinode_launcher standard --num_machines 2 --machine_rank "$DLRUN_NODE_RANK" --num_processes 2 --main_process_ip "$DLRUN_MASTER_ADDR" --main_process_port "$DLRUN_MASTER_PORT" --no_python bash -p "$DLRUN_JOB_DIR/bind.sh" python examples/accelerate/train.py --steps 60
