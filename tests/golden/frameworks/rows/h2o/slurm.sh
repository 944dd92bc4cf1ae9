DLRUN_MASTER_IP=$(numeric "$DLRUN_MASTER_ADDR") # for those that take no name
take_ports 2
export OMP_NUM_THREADS=48 # 48 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # lines reach the log when they are printed, and a killed rank loses none [Python documentation, Command line and environment]
export DLRUN_LAUNCHED # when, in ns by this node's clock, so that after a failure those of others can be put right
# 2 × node, 1 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none --overlap bash "$DLRUN_JOB_DIR/rank.sh" node </dev/null &
# 1 × driver, 1 on the first node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none --overlap --nodelist="$first_host" bash "$DLRUN_JOB_DIR/rank.sh" driver </dev/null &

command=()
case $role in
node)
  command=(java -Xmx1024m -jar "$(python3 -c 'import importlib.util as u, sys; print(u.find_spec(sys.argv[1]).submodule_search_locations[0])' h2o)"/backend/bin/h2o.jar -name dlrun-"$DLRUN_RUN_ID" -flatfile "$(endpoints 0 1 2 | tr , '\n' >"$DLRUN_RUN_DIR/flatfile-$DLRUN_RANK"; printf %s "$DLRUN_RUN_DIR/flatfile-$DLRUN_RANK")" -ip "$(own_address)" -port "$DLRUN_MASTER_PORT" -nthreads "$(env -u OMP_NUM_THREADS nproc)" -ice_root "${TMPDIR:-/tmp}/h2o-$UID-$DLRUN_MASTER_PORT")
  ;;
driver)
  export H2O_URL=http://"$DLRUN_MASTER_IP":"$DLRUN_MASTER_PORT" # the first node of the cloud, for h2o.connect(url=) [H2O documentation, Starting H2O]
  command=(python examples/h2o/train.py --steps 10)
  ;;
esac
