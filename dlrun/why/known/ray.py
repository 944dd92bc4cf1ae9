"""Errors of Ray, which starts and connects the processes of a training by itself."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_RAY = "https://github.com/ray-project/ray/blob/master/"

_FULL = "the node's disk below Ray's temporary directory is full"
_ROOM = "give another directory (`--temp-dir`) with room; `df -h` on the node shows which"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="Ray",
        source="https://github.com/ray-project/ray",
        line=r"\bray\.exceptions\.|\b[Rr]aylet\b|\(raylet\)|\bray::|\bray\.\w+\.|node_manager|gcs_|core_worker|\[state-dump\]",
        forms=(
            Form(
                cause="memory",
                texts=(
                    "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory",
                    "Task was killed due to the node running low on memory",
                    "ray.exceptions.OutOfMemoryError: {}",
                    "Workers (tasks / actors) killed due to memory pressure (OOM)",
                    "killed due to memory pressure",
                    "which exceeds the memory usage threshold of {}. Ray killed this worker",
                    "Worker exit type: NODE_OUT_OF_MEMORY",
                    "exit_type = NODE_OUT_OF_MEMORY",
                ),
                source=_RAY + "python/ray/exceptions.py",
                next="ask for more with `resources.memory_per_node`, or start fewer tasks at once (`num_cpus`, `memory` of each)",
                anywhere=True,
            ),
            Form(
                cause="shared-memory",
                texts=("ray.exceptions.ObjectStoreFullError", "The object store is full"),
                source=_RAY + "python/ray/exceptions.py",
                means="Ray's object store is full: it is in the node's shared memory (/dev/shm)",
                next="give it more (`--object-store-memory`), or hold fewer objects at once",
                anywhere=True,
            ),
            Form(
                cause="disk-full",
                texts=(
                    "OutOfDiskError",
                    "Local disk is full",
                    "No space left on device",
                ),
                source=_RAY + "python/ray/exceptions.py",
                means=_FULL,
                next=_ROOM,
            ),
            # From 95 % on, every ten seconds, on a large disk with much room.
            Form(
                cause="disk-full",
                texts=("is over {}% full, available space",),
                source=_RAY + "src/ray/common/file_system_monitor.cc",
                means=_FULL,
                next=_ROOM,
                passing=True,
            ),
            Form(
                cause="rendezvous",
                texts=(
                    "Could not find any running Ray instance",
                    "Failed to connect to GCS",
                    "Unable to connect to GCS",
                    "Could not connect to Ray",
                    "Timed out while waiting for GCS",
                    "Failed to get the system config from raylet",
                    "The current node timed out during startup",
                    "Can't find a `node_ip_address.json`",
                    "GCS: No node info found matching",
                    "Timed out waiting for head node to start",
                    "No available agent to submit job",
                ),
                source=_RAY + "python/ray/_private/services.py",
                means="a Ray process did not find the head node",
                next="see whether the head started: `dlrun logs JOB --rank all`; then the site's `rendezvous` rule",
                anywhere=True,
            ),
            Form(
                cause="library-version",
                texts=("Version mismatch: The cluster was started with",),
                source=_RAY + "python/ray/_private/utils.py",
                means="Ray or Python has different versions on the nodes",
                next="use one environment for all nodes: `environment.venv`, `conda` or `container`",
                anywhere=True,
            ),
            Form(cause="no-network", texts=("Temporary failure in name resolution",)),
            Form(
                cause="environment",
                texts=("RuntimeEnvSetupError", "Failed to set up runtime environment"),
                source="https://docs.ray.io/en/latest/ray-core/handling-dependencies.html",
                means="Ray could not build the environment of its tasks (`runtime_env`) on a node",
                check="the logs of `runtime_env` below Ray's session directory",
                next="install the packages in the job's environment beforehand, and give Ray no `runtime_env` that needs the internet",
            ),
            Form(
                cause="gpu-memory",
                texts=("CUDA out of memory", "torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError"),
                source=_RAY,
                passing=True,
            ),
            Form(
                cause="peer-lost",
                texts=(
                    "ray.exceptions.RayActorError",
                    "ray.exceptions.ActorDiedError",
                    "ray.exceptions.WorkerCrashedError",
                    "ray.exceptions.ActorUnavailableError",
                    "ray.exceptions.NodeDiedError",
                    "ray.exceptions.LocalRayletDiedError",
                    "The actor died unexpectedly before finishing this task",
                    "A worker died or was killed while executing a task",
                    "ray.exceptions.ObjectLostError",
                    "Raylet is terminated",
                    "have not registered within the timeout",
                    "The node with node id: {} has been marked dead",
                    "connection error code {}. End of file",
                ),
                source=_RAY + "python/ray/exceptions.py",
                means="Ray lost one of its processes or nodes",
                next="see how that process ended, in its own log: `dlrun logs JOB --rank all`",
                consequence=True,
            ),
            Form(
                cause="peer-lost",
                texts=("ray.exceptions.RayTaskError({1}): ", "ray.exceptions.RayTaskError"),
                source=_RAY + "python/ray/exceptions.py",
                means="a task of Ray raised an exception: {1}",
                next="the lines above have the exception's own traceback",
                consequence=True,
            ),
            Form(
                cause="rendezvous",
                texts=(
                    "Could not connect to socket {1}",
                    "Failed to connect to socket",
                    "Failed to register worker {1} to Raylet",
                    "Failed to register worker to Raylet",
                    "node_ip_address.json",
                    "This node has an IP address of {1}, {}while we can not find the matched Raylet address",
                ),
                source="https://github.com/ray-project/ray/issues/7788",
                means="a process of Ray found no Ray on its node: its daemon (raylet) had ended, or never started",
                next="see the logs below the session's directory (`logs/raylet.out`, `logs/gcs_server.out`); start one Ray for each job, with its own `--port` and `--temp-dir`",
                passing=True,
            ),
            Form(
                cause="fabric-interface",
                texts=("Couldn't find a valid local IP address",),
                source="https://github.com/ray-project/ray/issues/11295",
                means="Ray found no address of the node among its interfaces that the head node can reach",
                next="give `ray start` the address of the fabric's interface (`--node-ip-address`), the same kind on all nodes",
                anywhere=True,
            ),
            Form(
                cause="peer-lost",
                texts=(
                    "Some Ray subprocesses exited unexpectedly",
                    "raylet [exit code={1}]",
                    "Ray processes died unexpectedly",
                    "raylet died with exit code {1}",
                ),
                regex=r"\bF\s?\d{4} .*\]\s+(Check failed: .*)",
                source="https://github.com/vllm-project/vllm-ascend/issues/946",
                means="a process of Ray on the node ended",
                next="see the logs below Ray's session directory (`logs/raylet.err`, `logs/gcs_server.err`)",
                consequence=True,
                anywhere=True,
            ),
            Form(
                cause="rendezvous",
                texts=("Did not find socket name {1} in the list of object store socket names",),
                source="https://github.com/CSCfi/ai-inference-examples/issues/1",
                means="a process of Ray found no Ray on its node: its daemon (raylet) had ended, or never started",
                next="start one Ray for each job, with its own `--port` and `--temp-dir`, and `ray.init(address='auto')` only after all nodes have joined",
                anywhere=True,
            ),
        ),
    ),
)
