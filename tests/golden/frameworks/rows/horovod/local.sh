# 1 × rendezvous, on the first node
dlrun_service dlrun_local 1 bash -p "$DLRUN_JOB_DIR/rank.sh" rendezvous
until (exec 3<>"/dev/tcp/$DLRUN_MASTER_ADDR/$DLRUN_MASTER_PORT") 2>/dev/null; do dlrun_still_waiting rendezvous; done
# 1 × rank, 1 on each node
dlrun_launch dlrun_local 1 bash -p "$DLRUN_JOB_DIR/rank.sh" rank

case $1 in
rendezvous)
  dlrun_run python3 "$DLRUN_JOB_DIR"/hvd_rendezvous.py "$DLRUN_MASTER_PORT" 1 1
  ;;
rank)
  export HOROVOD_CONTROLLER=gloo # ranks are started by local [Horovod documentation, Environment variables]
  export HOROVOD_CPU_OPERATIONS=gloo # reductions in host memory use the controller's library [Horovod documentation, Environment variables]
  export HOROVOD_GLOO_RENDEZVOUS_ADDR="$DLRUN_MASTER_ADDR" # the address of the key/value server [Horovod 0.28, horovod/common/gloo/gloo_context.h]
  export HOROVOD_GLOO_RENDEZVOUS_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on that node [Horovod 0.28, horovod/common/gloo/gloo_context.h]
  export HOROVOD_HOSTNAME=node"$DLRUN_NODE_RANK" # the name under which the server groups this node's ranks [Horovod 0.28, horovod/common/gloo/gloo_context.h]
  export HOROVOD_RANK="$DLRUN_RANK" # from the launcher [Horovod 0.28, horovod/common/gloo/gloo_context.h]
  export HOROVOD_SIZE=1 # 1 node × 1 rank [Horovod 0.28, horovod/common/gloo/gloo_context.h]
  export HOROVOD_LOCAL_RANK="$DLRUN_LOCAL_RANK" # from the launcher [Horovod 0.28, horovod/common/gloo/gloo_context.h]
  export HOROVOD_LOCAL_SIZE="$DLRUN_LOCAL_SIZE" # ranks on this node [Horovod 0.28, horovod/common/gloo/gloo_context.h]
  export HOROVOD_CROSS_RANK="$DLRUN_NODE_RANK" # index among the ranks with this local rank [Horovod 0.28, horovod/common/gloo/gloo_context.h]
  export HOROVOD_CROSS_SIZE
  HOROVOD_CROSS_SIZE="$(( (1 - DLRUN_LOCAL_RANK + 0) / 1 ))" # ranks with this local rank [Horovod 0.28, horovod/common/gloo/gloo_context.h]
  dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
  dlrun_run python examples/horovod/train.py --steps 60
  ;;
esac
