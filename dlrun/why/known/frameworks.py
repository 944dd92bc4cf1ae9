"""Errors of training frameworks: JAX, TensorFlow, Horovod, MXNet, Paddle, Spark."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_JAX = "https://docs.jax.dev/en/latest/multi_process.html"


# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="JAX and XLA",
        source="https://github.com/jax-ml/jax",
        forms=(
            Form(
                cause="rendezvous",
                texts=(
                    "DEADLINE_EXCEEDED: GetKeyValue() timed out with key",
                    "DEADLINE_EXCEEDED: Barrier timed out. {}init",
                    "DEADLINE_EXCEEDED: Timed out waiting for {1}",
                    "coordination service {} DEADLINE_EXCEEDED",
                    "DEADLINE_EXCEEDED: Barrier timed out",
                    "Failed to connect to distributed JAX controller",
                    "coordinator_address should be defined",
                    "DEADLINE_EXCEEDED: Deadline Exceeded",
                    "RegisterTask{}DEADLINE_EXCEEDED",
                ),
                source=_JAX,
                consequence=True,
            ),
            Form(
                cause="gpu-library",
                texts=("CUDA_ERROR_NOT_INITIALIZED",),
                source="https://github.com/jax-ml/jax/issues/20711",
                means="CUDA was not initialised in this process: it began before the driver was, or was forked from one that uses it",
                passing=True,
                consequence=True,
            ),
            Form(
                cause="gpu-library",
                texts=(
                    "Failed to get convolution algorithm. This is probably because cuDNN failed to initialize",
                ),
                source="https://github.com/tensorflow/tensorflow/issues/25160",
                means="cuDNN could not be initialised: mostly the GPU's memory was taken already, else its version does not fit",
                check="`nvidia-smi` on the node: whether another process is on the GPU; the lines before it for the versions of cuDNN",
                next="let TensorFlow take memory as it needs it (`environment.variables: {TF_FORCE_GPU_ALLOW_GROWTH: 'true'}`) and give each process its own GPU; if that is so, install the cuDNN that this TensorFlow was built with",
            ),
            Form(
                cause="collective-mismatch",
                texts=("sync_global_devices name mismatch", "participating devices do not match"),
                source=_JAX,
            ),
            Form(
                cause="peer-lost",
                texts=(
                    "UNAVAILABLE: The following tasks are unhealthy",
                    "Terminating process because the JAX distributed service detected fatal errors",
                    "Terminating process because the coordinator detected missing heartbeats",
                    "stopped sending heartbeats",
                    "CoordinationServiceError",
                    "UNAVAILABLE: Failed to send RPC to coordination service",
                    "Another task died",
                    "has been set to ERROR in coordination service",
                    "UNAVAILABLE: failed to connect to all addresses",
                    "Polled an error from coordination service",
                ),
                regex=r"\bABORTED: ",
                source="https://github.com/openxla/xla/tree/main/xla/tsl/distributed_runtime/coordination",
                consequence=True,
            ),
            Form(
                cause="gpu-library",
                texts=(
                    "INTERNAL: Failed to execute XLA Runtime executable",
                    "jaxlib version {} is newer than and incompatible with jax version",
                    "which is older than the version required by JAX",
                    "JAX requires {1} version",
                    "Unable to load cuSPARSE",
                    "XLA requires ptxas",
                    "cuSolver internal error",
                    "INTERNAL: no supported devices",
                ),
                source="https://docs.jax.dev/en/latest/installation.html",
            ),
            Form(
                cause="gpu-busy",
                texts=(
                    "The TPU is already in use by process with pid {1}",
                    "TPU backend: ABORTED",
                    "Unable to initialize backend 'tpu'",
                ),
                source="https://docs.jax.dev/en/latest/faq.html",
                means="the accelerator is in use by another process",
            ),
            Form(
                cause="collective-timeout",
                texts=("Expected {} threads to join the rendezvous, but", "Termination timeout for `{1}` of"),
                source="https://github.com/jax-ml/jax/issues/22740",
                consequence=True,
            ),
            Form(
                cause="peer-lost",
                texts=(
                    "INTERNAL: NCCL operation {1} failed",
                    "NCCL operation {} failed: {1}",
                    "different incarnation",
                ),
                source="https://github.com/openxla/xla/blob/main/xla/backends/gpu/collectives/nccl_errors.h",
                consequence=True,
            ),
        ),
    ),
    Writer(
        name="TensorFlow",
        source="https://github.com/tensorflow/tensorflow",
        forms=(
            Form(
                cause="rendezvous",
                texts=(
                    "TF_CONFIG is set incorrectly",
                    "Invalid task_type",
                    "UnavailableError: Collective ops is aborted by: Could not connect",
                ),
                source="https://www.tensorflow.org/guide/distributed_training",
            ),
            Form(
                cause="port-in-use",
                texts=("Could not start gRPC server",),
                source="https://www.tensorflow.org/guide/distributed_training",
                consequence=True,
            ),
            Form(
                cause="peer-lost",
                texts=(
                    "UnavailableError",
                    "Collective ops is aborted by",
                    "AbortedError: ",
                    "Socket closed",
                    "CancelledError: RPC Request was cancelled",
                ),
                source="https://www.tensorflow.org/api_docs/python/tf/errors",
                consequence=True,
            ),
            Form(
                cause="gpu-library",
                texts=("No algorithm worked!",),
                source="https://github.com/tensorflow/tensorflow/issues/45068",
                means="cuDNN has no algorithm that runs here: it does not fit the GPU or the driver, or the GPU's memory is used up",
                next="compare the versions of TensorFlow, CUDA and cuDNN; let the memory grow as needed: `environment.variables: {TF_FORCE_GPU_ALLOW_GROWTH: true}`",
            ),
            Form(
                cause="gpu-memory",
                texts=(
                    "failed to allocate {} from device: CUDA_ERROR_OUT_OF_MEMORY",
                    "Allocator (GPU_{}_bfc) ran out of memory trying to allocate",
                    "ResourceExhaustedError: {} failed to allocate memory",
                ),
                source="https://www.tensorflow.org/guide/gpu",
                passing=True,
            ),
        ),
    ),
    Writer(
        name="vLLM and SGLang",
        source="https://github.com/vllm-project/vllm",
        forms=(
            Form(
                cause="no-gpu",
                texts=("engine cannot start without GPU", "Current node has no GPU available"),
                source="https://github.com/vllm-project/vllm/blob/main/vllm/v1/executor/ray_utils.py",
            ),
            Form(
                cause="ranks",
                texts=(
                    "The number of required GPUs exceeds the total number of available GPUs in the placement group",
                    "The number of required GPUs exceeds the total number of available GPUs in the cluster",
                ),
                source="https://github.com/vllm-project/vllm/blob/main/vllm/v1/executor/ray_utils.py",
                means="the engine was to use more GPUs than Ray's nodes have together",
                next="let `tensor_parallel_size` times `pipeline_parallel_size` be the number of GPUs of the job; see whether every node joined Ray: `dlrun logs JOB --rank all`",
            ),
            Form(
                cause="gpu-memory",
                texts=("Not enough memory. Please try to increase --mem-fraction-static",),
                source="https://github.com/sgl-project/sglang/issues/3889",
                means="a GPU's memory is too small for the model with room for its cache (KV)",
                next="use more GPUs (`tensor_parallel_size`), a shorter `max_model_len`, or a larger part of the memory (`gpu_memory_utilization`, `--mem-fraction-static`)",
            ),
            Form(
                cause="gpu-busy",
                texts=("memory capacity is unbalanced. Some GPUs may be occupied by other processes",),
                source="https://github.com/sgl-project/sglang/issues/1533",
                means="the GPUs of a node have different amounts of free memory: another process, maybe of an earlier run, is on some of them",
            ),
            Form(
                cause="peer-lost",
                texts=("there are other ranks that didn't finish loading",),
                source="https://github.com/sgl-project/sglang/issues/5602",
                means="another rank did not finish loading the model: it ended, often for memory, or its node reads slowly",
                next="see how the other ranks ended (`dlrun logs JOB --rank all`); let the nodes read the model from their own disks (`data`)",
                consequence=True,
            ),
            Form(
                cause="build-mismatch",
                texts=(
                    "but Transformers does not recognize this architecture",
                    "Model architectures {1} are not supported for now",
                    "Model architectures {1} failed to be inspected",
                ),
                source="https://github.com/huggingface/transformers/blob/main/src/transformers/models/auto/configuration_auto.py",
                means="the installed libraries do not know this kind of model: they are older than it, or were changed",
                next="update `transformers` (and the engine) in the job's environment to a version that has the model",
            ),
            Form(
                cause="configuration",
                texts=(
                    "Please pass the argument `trust_remote_code=True`",
                    "requires you to execute the {1}",
                ),
                source="https://github.com/huggingface/transformers/blob/main/src/transformers/dynamic_module_utils.py",
                means="the model has code of its own, which is not run unless the program allows it",
                next="if you trust the model, give `trust_remote_code=True`",
            ),
        ),
    ),
    Writer(
        name="Horovod",
        source="https://github.com/horovod/horovod",
        forms=(
            Form(
                cause="collective-timeout",
                texts=(
                    "Stalled ranks:",
                    "Stalled ops:",
                    "Horovod has timed out",
                    "one or more ranks are stalled",
                    "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks",
                ),
                source="https://github.com/horovod/horovod/blob/master/horovod/common/stall_inspector.cc",
                consequence=True,
            ),
            Form(
                cause="communication",
                texts=("ncclCommInitRank failed: {1}",),
                regex=r"\bnccl[A-Z]\w+ failed: ((?:unhandled \w+|internal) error|invalid \w+)",
                source="https://github.com/horovod/horovod/issues/1651",
                means="a call of NCCL between the ranks failed: {1}; its own message is with `NCCL_DEBUG=INFO`",
                next="`environment.variables: {NCCL_DEBUG: INFO}`, and see the first `NCCL WARN` of each rank: `dlrun logs JOB --rank all`",
                consequence=True,
            ),
            Form(
                cause="peer-lost",
                texts=(
                    "HorovodInternalError: {1}",
                    "Horovod has been shut down",
                    "This was caused by an exception on one of the ranks",
                ),
                source="https://github.com/horovod/horovod/blob/master/horovod/common/common.h",
                consequence=True,
            ),
            Form(
                cause="library-setting",
                texts=(
                    "Extension horovod.{1} has not been built",
                    "horovod.run: Horovod has not been built with",
                    "Gloo support has not been built",
                    "MPI support has not been built",
                ),
                source="https://horovod.readthedocs.io/en/stable/troubleshooting_include.html",
                consequence=True,
                means="Horovod was not built for this framework or with this library",
                next="`horovodrun --check-build` in the job's environment; build it again with `HOROVOD_WITH_…=1`",
            ),
            Form(
                cause="rendezvous",
                texts=(
                    "Timed out waiting for {} processes to be started",
                    "Horovod run timed out",
                    "Unable to find a set of common task-to-task communication interfaces",
                    "rendezvous timed out",
                ),
                source="https://horovod.readthedocs.io/en/stable/troubleshooting_include.html",
            ),
        ),
    ),
    Writer(
        name="MXNet, Paddle and Spark",
        source="https://github.com/apache/mxnet",
        forms=(
            Form(
                cause="rendezvous",
                texts=("Nanny failed to start in {1}", "Reason: failure-to-start-{1}"),
                source="https://github.com/dask/dask-jobqueue/issues/391",
                means="a worker of Dask did not reach its scheduler in time, or its process did not start",
                next="check that the interface given to Dask is one that all nodes have, and see the worker's own log for what it did until then",
                consequence=True,
            ),
            Form(
                cause="rendezvous",
                texts=("Check failed: my_node_.port != -1 : bind failed", "failed to get the interface"),
                source="https://github.com/dmlc/ps-lite/blob/master/src/van.cc",
                means="MXNet's scheduler could not bind to its address, which must be an IP address of its own node",
                next="let dlrun start the roles (`framework: mxnet`); correct `fabric.interfaces` in the site profile",
            ),
            Form(
                cause="rank-variables",
                texts=('Environment::Get()->find("{1}")',),
                source="https://github.com/dmlc/ps-lite/blob/master/src/postoffice.cc",
            ),
            Form(
                cause="build-mismatch",
                texts=("compile with USE_DIST_KVSTORE=1 to use {1}",),
                source="https://github.com/apache/mxnet/blob/master/src/kvstore/kvstore.cc",
                means="this MXNet was built without its parameter server (`USE_DIST_KVSTORE`), which {1} needs",
                check="`python -c 'import mxnet.runtime as r; print(r.Features())'` in the job's environment",
                next="install a build that has it, or use Horovod's `DistributedTrainer`",
            ),
            Form(
                cause="gpu-build",
                texts=(
                    "compile with USE_CUDA=1",
                    "Compile MXNet with USE_CUDA=1",
                    "compile with CUDA enabled",
                ),
                source="https://github.com/apache/mxnet/issues/12562",
                means="this build of MXNet has no CUDA",
                check="`python -c 'import mxnet.runtime as r; print(r.Features())'` in the job's environment",
                next="install the build for the node's CUDA (`mxnet-cu…`)",
            ),
            Form(
                cause="communication",
                texts=("(External) NCCL error({}), {1}", "ExternalError:  Nccl error, {1}"),
                source="https://github.com/PaddlePaddle/Paddle",
                consequence=True,
            ),
            Form(
                cause="gpu-memory",
                texts=(),
                regex=r"\bcu-allocator\.\w+:\d+\) Cannot allocate the requested memory",
                source="https://github.com/kaldi-asr/kaldi/pull/1882",
                next="let one process alone use the GPU, or take smaller minibatches (`--num-chunk-per-minibatch`)",
            ),
            Form(
                cause="gpu-memory",
                texts=(
                    "cudaMalloc retry failed: out of memory",
                    "Out of memory error on GPU {1}. Cannot allocate",
                ),
                source="https://github.com/PaddlePaddle/Paddle",
            ),
            Form(
                cause="memory",
                texts=(
                    "java.lang.OutOfMemoryError",
                    "ExecutorLostFailure {} Container killed by YARN for exceeding memory limits",
                    "Container killed on request. Exit code is 137",
                ),
                source="https://spark.apache.org/docs/latest/tuning.html",
                means="a Java process of Spark ran out of memory",
                next="give executors more (`spark.executor.memory`) within `resources.memory_per_node`",
            ),
            Form(
                cause="peer-lost",
                texts=(
                    "ExecutorLostFailure",
                    "All masters are unresponsive! Giving up",
                    "Master removed our application",
                    "Lost executor {1} on",
                ),
                source="https://spark.apache.org/docs/latest/spark-standalone.html",
                consequence=True,
                means="Spark lost its master or an executor",
            ),
        ),
    ),
    Writer(
        name="glog and absl",
        source="https://github.com/google/glog",
        forms=(
            Form(
                cause="abort",
                texts=(),
                regex=r"\bF\s?\d{4,8} [\d:.]+\s+\d+ \S+:\d+\]\s+(\S.*)|: F \S+:\d+\] (\S.*)",
                source="https://github.com/ray-project/ray/issues/8329",
                means="a check inside of a program failed, and it ended itself: {1}",
                next="look for what this process lost before: `dlrun logs JOB --rank all` of the same minute; then update the library that wrote the line",
                consequence=True,
            ),
        ),
    ),
)
