dlrun_take_ports 20000 29999 1 # from, to, how many: DLRUN_MASTER_PORT is the first
export OMP_NUM_THREADS=48 # 48 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so a killed rank loses no lines [Python documentation, Command line and environment]
# 2 × agent, 1 on each node
dlrun_launch dlrun_ssh "$DLRUN_HOSTS" 1 2 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" agent

export GLOO_SOCKET_IFNAME=eth0 # Gloo uses the site's fabric instead of the interface of the host name [PyTorch documentation, torch.distributed]
export ACCELERATE_USE_CPU=true # there are no GPUs [Accelerate documentation, Launching on CPUs]
dlrun_run python -m accelerate.commands.launch --multi_gpu --mixed_precision no --dynamo_backend no --same_network --deepspeed_multinode_launcher standard --num_machines 2 --machine_rank "$DLRUN_NODE_RANK" --num_processes 2 --main_process_ip "$DLRUN_MASTER_ADDR" --main_process_port "$DLRUN_MASTER_PORT" examples/accelerate/train.py --steps 60
