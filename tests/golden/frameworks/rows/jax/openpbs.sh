dlrun_take_ports 20000 29999 1 # from, to, how many: DLRUN_MASTER_PORT is the first
export OMP_NUM_THREADS=48 # 48 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # output is not buffered, so a killed rank loses no lines [Python documentation, Command line and environment]
# 2 × rank, 1 on each node
dlrun_launch dlrun_ssh "$DLRUN_HOSTS" 1 2 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" rank

export JAX_COORDINATOR_ADDRESS="$DLRUN_MASTER_ADDR":"$DLRUN_MASTER_PORT" # rank 0's node, by the site's address rule [JAX 0.10, jax/_src/distributed.py]
export JAX_CPU_COLLECTIVES_IMPLEMENTATION=gloo # collectives between hosts without GPUs [JAX 0.10, jax/_src/distributed.py]
dlrun_run python examples/jax/train.py --rank "$DLRUN_RANK" --world 2 --steps 60
