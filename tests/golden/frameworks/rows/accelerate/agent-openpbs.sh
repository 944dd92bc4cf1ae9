take_ports 1
export OMP_NUM_THREADS=48 # 48 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # lines reach the log when they are printed, and a killed rank loses none [Python documentation, Command line and environment]
export DLRUN_LAUNCHED # when, in ns by this node's clock, so that after a failure those of others can be put right
# 2 × agent, 1 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_ssh "$run_dir"/hosts 1 2 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" agent </dev/null &

command=()
case $role in
agent)
  export GLOO_SOCKET_IFNAME=eth0 # Gloo talks over the site's fabric, not the interface that the host name happens to mean [PyTorch documentation, torch.distributed]
  export ACCELERATE_USE_CPU=true # there are no GPUs [Accelerate documentation, Launching on CPUs]
  command=(python -m accelerate.commands.launch --multi_gpu --mixed_precision no --dynamo_backend no --same_network --deepspeed_multinode_launcher standard --num_machines 2 --machine_rank "$DLRUN_NODE_RANK" --num_processes 2 --main_process_ip "$DLRUN_MASTER_ADDR" --main_process_port "$DLRUN_MASTER_PORT" examples/accelerate/train.py --steps 60)
  ;;
esac
