dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first
dlrun_launch dlrun_local 1 bash -p "$DLRUN_JOB_DIR/rank.sh" rank

export PADDLE_TRAINERS_NUM=1 # 1 node × 1 rank [Paddle 3.3, paddle/distributed/parallel.py]
export PADDLE_TRAINER_ENDPOINTS
PADDLE_TRAINER_ENDPOINTS="$(dlrun_endpoints 1 1 1)" # all trainers in order of rank [Paddle 3.3, paddle/distributed/parallel.py]
export PADDLE_TRAINER_ID="$DLRUN_RANK" # from the launcher [Paddle 3.3, paddle/distributed/parallel.py]
export PADDLE_CURRENT_ENDPOINT
PADDLE_CURRENT_ENDPOINT="$(dlrun_endpoints 1 1 1 | cut -d , -f $((DLRUN_RANK + 1)))" # this trainer's own endpoint [Paddle 3.3, paddle/distributed/parallel.py]
export PADDLE_MASTER="$DLRUN_MASTER_ADDR":"$DLRUN_MASTER_PORT" # rank 0's node, by the site's address rule [Paddle 3.3, paddle/distributed/parallel.py]
export PADDLE_RANK_IN_NODE="$DLRUN_LOCAL_RANK" # from the launcher [Paddle 3.3, paddle/distributed/parallel.py]
export PADDLE_DISTRI_BACKEND=gloo # there are no GPUs [Paddle 3.3, paddle/distributed/parallel.py]
dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run python examples/paddle/train.py --steps 60
