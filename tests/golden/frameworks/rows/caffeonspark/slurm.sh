DLRUN_MASTER_IP=$(numeric "$DLRUN_MASTER_ADDR") # for those that take no name
take_ports 3
export OMP_NUM_THREADS=48 # 48 cores / 1 rank [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # lines reach the log when they are printed, and a killed rank loses none [Python documentation, Command line and environment]
export DLRUN_LAUNCHED # when, in ns by this node's clock, so that after a failure those of others can be put right
# 1 × master, 1 on the first node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none --overlap --nodelist="$first_host" bash "$DLRUN_JOB_DIR/rank.sh" master </dev/null &
# 2 × worker, 1 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none --overlap bash "$DLRUN_JOB_DIR/rank.sh" worker </dev/null &
# 1 × driver, 1 on the first node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none --overlap --nodelist="$first_host" bash "$DLRUN_JOB_DIR/rank.sh" driver </dev/null &

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
  command=(spark-submit --conf spark.cores.max="$(($(env -u OMP_NUM_THREADS nproc) * 2))" --conf spark.task.cpus="$(env -u OMP_NUM_THREADS nproc)" --master spark://"$DLRUN_MASTER_IP":"$DLRUN_MASTER_PORT" --conf spark.driver.host="$DLRUN_MASTER_IP" --conf spark.driver.bindAddress="$DLRUN_MASTER_IP" --conf spark.ui.enabled=false --class com.yahoo.ml.caffe.CaffeOnSpark --files solver.prototxt,train_test.prototxt caffe-grid-with-dependencies.jar -train -conf solver.prototxt -clusterSize 2 -connection ethernet -model file:"$DLRUN_RUN_DIR"/caffe.model)
  ;;
esac
