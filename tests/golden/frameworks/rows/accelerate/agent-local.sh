dlrun_launch dlrun_local 1 bash -p "$DLRUN_JOB_DIR/rank.sh" agent

export ACCELERATE_USE_CPU=true # there are no GPUs [Accelerate documentation, Launching on CPUs]
dlrun_run python -m accelerate.commands.launch --mixed_precision no --dynamo_backend no --same_network --deepspeed_multinode_launcher standard --num_machines 1 --machine_rank "$DLRUN_NODE_RANK" --num_processes 1 --main_process_ip "$DLRUN_MASTER_ADDR" --main_process_port "$DLRUN_MASTER_PORT" --no_python bash -p "$DLRUN_JOB_DIR/bind.sh" python examples/accelerate/train.py --steps 60
