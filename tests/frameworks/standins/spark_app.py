"""Stands in for an application on Spark: one task a worker for CaffeOnSpark, an address for Deeplearning4j's."""

import os
import runpy
import sys

from pyspark.sql import SparkSession

wanted = os.environ["STANDIN_FOR"]
context = SparkSession.builder.appName("stand-in").getOrCreate().sparkContext
if wanted == "caffeonspark":
    cores = int(context.getConf().get("spark.task.cpus"))
    assert int(context.getConf().get("spark.cores.max")) == 2 * cores, "one task a worker"
else:
    addresses = context.parallelize(range(8), 8).map(
        lambda _: (os.uname().nodename, os.environ["DL4J_VOID_IP"])
    )
    assert set(addresses.collect()) == {("n1", "10.141.1.1"), ("n2", "10.141.1.2")}, addresses.collect()
example = sys.argv.pop(1)
runpy.run_path(example, run_name="__main__")
