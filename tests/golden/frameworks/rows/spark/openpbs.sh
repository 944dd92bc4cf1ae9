DLRUN_MASTER_IP=$(numeric "$DLRUN_MASTER_ADDR") # for those that take no name
take_ports 3
export OMP_NUM_THREADS=48 # 48 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # lines reach the log when they are printed, and a killed rank loses none [Python documentation, Command line and environment]
export DLRUN_LAUNCHED # when, in ns by this node's clock, so that after a failure those of others can be put right
# 1 × master, 1 on the first node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_ssh "$run_dir"/hosts-first 1 1 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" master </dev/null &
# 2 × worker, 1 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_ssh "$run_dir"/hosts 1 2 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" worker </dev/null &
# 1 × driver, 1 on the first node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_ssh "$run_dir"/hosts-first 1 1 1 ssh bash "$DLRUN_JOB_DIR/rank.sh" driver </dev/null &

command=()
case $role in
master)
  export SPARK_LOCAL_IP
  SPARK_LOCAL_IP="$(own_address)" # this node, by the site's address rule [Spark documentation, Spark Standalone Mode]
  export SPARK_MASTER_OPTS=-Dspark.master.rest.enabled=false # nobody needs it, and its port is the same for all jobs [Spark documentation, Spark Standalone Mode]
  command=(spark-class org.apache.spark.deploy.master.Master --host "$DLRUN_MASTER_IP" --port "$DLRUN_MASTER_PORT" --webui-port "$((DLRUN_MASTER_PORT + 1))")
  ;;
worker)
  export SPARK_LOCAL_IP
  SPARK_LOCAL_IP="$(own_address)" # this node, by the site's address rule [Spark documentation, Spark Standalone Mode]
  command=(spark-class org.apache.spark.deploy.worker.Worker --host "$(own_address)" --webui-port "$((DLRUN_MASTER_PORT + 2))" --cores "$(env -u OMP_NUM_THREADS nproc)" --work-dir "$DLRUN_RUN_DIR"/logs/spark-"$DLRUN_RANK" spark://"$DLRUN_MASTER_IP":"$DLRUN_MASTER_PORT")
  ;;
driver)
  export SPARK_LOCAL_IP
  SPARK_LOCAL_IP="$(own_address)" # this node, by the site's address rule [Spark documentation, Spark Standalone Mode]
  command=(spark-submit --master spark://"$DLRUN_MASTER_IP":"$DLRUN_MASTER_PORT" --conf spark.driver.host="$DLRUN_MASTER_IP" --conf spark.driver.bindAddress="$DLRUN_MASTER_IP" --conf spark.ui.enabled=false --executor-memory 1024m --conf spark.pyspark.python="$(command -v python)" examples/spark/train.py --workers 2 --steps 20)
  ;;
esac
