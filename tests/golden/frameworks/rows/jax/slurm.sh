dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first
dlrun_launch srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" rank

export JAX_COORDINATOR_ADDRESS="$DLRUN_MASTER_ADDR":"$DLRUN_MASTER_PORT" # rank 0's node, by the site's address rule [JAX 0.10, jax/_src/distributed.py]
export JAX_CPU_COLLECTIVES_IMPLEMENTATION=gloo # collectives between hosts without GPUs [JAX 0.10, jax/_src/distributed.py]
dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run python examples/jax/train.py --rank "$DLRUN_RANK" --world 2 --steps 60
