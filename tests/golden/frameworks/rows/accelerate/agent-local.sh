take_ports 1
export OMP_NUM_THREADS=8 # 8 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # lines reach the log when they are printed, and a killed rank loses none [Python documentation, Command line and environment]
export DLRUN_LAUNCHED # when, in ns by this node's clock, so that after a failure those of others can be put right
# 1 × agent, 1 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_local 1 bash "$DLRUN_JOB_DIR/rank.sh" agent </dev/null &

command=()
case $role in
agent)
  export ACCELERATE_USE_CPU=true # there are no GPUs [Accelerate documentation, Launching on CPUs]
  command=(python -m accelerate.commands.launch --mixed_precision no --dynamo_backend no --same_network --deepspeed_multinode_launcher standard --num_machines 1 --machine_rank "$DLRUN_NODE_RANK" --num_processes 1 --main_process_ip "$DLRUN_MASTER_ADDR" --main_process_port "$DLRUN_MASTER_PORT" examples/accelerate/train.py --steps 60)
  ;;
esac
