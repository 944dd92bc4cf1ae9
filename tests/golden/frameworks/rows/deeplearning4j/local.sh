dlrun_take_ports 20000 29999 3 # free ports: from, to, how many; DLRUN_MASTER_PORT is the first
DLRUN_MASTER_IP=$(dlrun_numeric "$DLRUN_MASTER_ADDR")
# 1 × master, on the first node
dlrun_service dlrun_local 1 bash -p "$DLRUN_JOB_DIR/rank.sh" master
until (exec 3<>"/dev/tcp/$DLRUN_MASTER_ADDR/$DLRUN_MASTER_PORT") 2>/dev/null; do dlrun_still_waiting master; done
# 1 × worker, 1 on each node
dlrun_service dlrun_local 1 bash -p "$DLRUN_JOB_DIR/rank.sh" worker
until (exec 3<>"/dev/tcp/$DLRUN_MASTER_ADDR/$((DLRUN_MASTER_PORT + 1))" && printf 'GET /json/ HTTP/1.0\r\n\r\n' >&3 && grep -Eq '"aliveworkers" *: *1\b' <&3) 2>/dev/null; do dlrun_still_waiting worker; done
# 1 × driver, on the first node
dlrun_launch dlrun_local 1 bash -p "$DLRUN_JOB_DIR/rank.sh" driver

DLRUN_OWN_ADDRESS=$(dlrun_numeric "127.0.0.1")
export DLRUN_OWN_ADDRESS # under which other nodes reach this one
case $1 in
master)
  export SPARK_LOCAL_IP="$DLRUN_OWN_ADDRESS" # this node, by the site's address rule [Spark documentation, Spark Standalone Mode]
  export SPARK_MASTER_OPTS=-Dspark.master.rest.enabled=false # turns off the REST server, whose port would be the same for all jobs on a node [Spark documentation, Spark Standalone Mode]
  dlrun_run spark-class org.apache.spark.deploy.master.Master --host "$DLRUN_MASTER_IP" --port "$DLRUN_MASTER_PORT" --webui-port "$((DLRUN_MASTER_PORT + 1))"
  ;;
worker)
  export SPARK_LOCAL_IP="$DLRUN_OWN_ADDRESS" # this node, by the site's address rule [Spark documentation, Spark Standalone Mode]
  export DL4J_VOID_IP="$DLRUN_OWN_ADDRESS" # this node, by the site's address rule [Deeplearning4j documentation, Distributed Deep Learning on Spark]
  dlrun_run spark-class org.apache.spark.deploy.worker.Worker --host "$DLRUN_OWN_ADDRESS" --webui-port "$((DLRUN_MASTER_PORT + 2))" --cores "$(env -u OMP_NUM_THREADS nproc)" --work-dir "$DLRUN_RUN_DIR"/logs/spark-"$DLRUN_RANK" spark://"$DLRUN_MASTER_IP":"$DLRUN_MASTER_PORT"
  ;;
driver)
  export SPARK_LOCAL_IP="$DLRUN_OWN_ADDRESS" # this node, by the site's address rule [Spark documentation, Spark Standalone Mode]
  export DL4J_VOID_IP="$DLRUN_OWN_ADDRESS" # this node, by the site's address rule [Deeplearning4j documentation, Distributed Deep Learning on Spark]
  dlrun_run spark-submit --master spark://"$DLRUN_MASTER_IP":"$DLRUN_MASTER_PORT" --conf spark.driver.host="$DLRUN_MASTER_IP" --conf spark.driver.bindAddress="$DLRUN_MASTER_IP" --conf spark.ui.enabled=false --class org.example.Train train.jar --nodes 1
  ;;
esac
