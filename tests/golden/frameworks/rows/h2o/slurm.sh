dlrun_take_ports 20000 29999 2 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first
DLRUN_MASTER_IP=$(dlrun_numeric "$DLRUN_MASTER_ADDR")
# 2 × node, 1 on each node
dlrun_service srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --overlap bash -p "$DLRUN_JOB_DIR/rank.sh" node
until (exec 3<>"/dev/tcp/$DLRUN_MASTER_ADDR/$DLRUN_MASTER_PORT" && printf 'GET /3/Cloud HTTP/1.0\r\n\r\n' >&3 && grep -Eq '"cloud_size":2,.*"consensus":true' <&3) 2>/dev/null; do dlrun_still_waiting node; done
# 1 × driver, on the first node
dlrun_launch srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none --overlap --nodelist="$DLRUN_FIRST_HOST" bash -p "$DLRUN_JOB_DIR/rank.sh" driver

DLRUN_OWN_ADDRESS=$(dlrun_numeric "$DLRUN_HOST-ib")
export DLRUN_OWN_ADDRESS # under which other nodes reach this one
export DLRUN_SUFFIX=-ib # makes the name of a host that of its address on the fabric
case $1 in
node)
  dlrun_run java -Xmx1024m -jar "$(python3 -c 'import importlib.util as u, sys; print(u.find_spec(sys.argv[1]).submodule_search_locations[0])' h2o)"/backend/bin/h2o.jar -name dlrun-"$DLRUN_RUN_ID" -flatfile "$(dlrun_endpoints 0 1 2 | tr , '\n' >"$DLRUN_RUN_DIR/flatfile-$DLRUN_RANK"; printf %s "$DLRUN_RUN_DIR/flatfile-$DLRUN_RANK")" -ip "$DLRUN_OWN_ADDRESS" -port "$DLRUN_MASTER_PORT" -nthreads "$(env -u OMP_NUM_THREADS nproc)" -ice_root "${TMPDIR:-/tmp}/h2o-$UID-$DLRUN_MASTER_PORT"
  ;;
driver)
  export H2O_URL=http://"$DLRUN_MASTER_IP":"$DLRUN_MASTER_PORT" # the first node of the H2O cluster, for h2o.connect(url=) [H2O documentation, Starting H2O]
  dlrun_run python examples/h2o/train.py --steps 10
  ;;
esac
