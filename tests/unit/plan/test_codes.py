"""Every problem code of a plan: what brings it up, where it points, and what it says to do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest

import dlrun
from dlrun.model.problem import InvalidFile
from dlrun.plan.codes import CODES
from tests.making import plan_of

PACKAGE = Path(dlrun.__file__).parent
SITE = """\
name: there
scheduler: {type: slurm}
launcher: {name: srun}
partitions:
  gpu: {node_type: gpu, max_walltime: 24h, min_nodes: 2, max_nodes: 8, default: true}
  cpu: {node_type: cpu}
node_types:
  gpu:
    memory: 480GB
    topology: {packages: 2, cores: 16, gpus: {count: 4, numa: [0, 0, 1, 1]}}
  cpu:
    memory: 180GiB
    topology: {packages: 2, cores: 8}
"""
STRICT = (
    """\
name: strict
scheduler:
  type: slurm
  required: [account, memory]
  forbidden: [constraint, qos]
  mandatory: {filesystems: which file systems the job uses}
  account: {pattern: "[a-z]{3}[0-9]{3}", help: "`groups` lists yours"}
launcher: {name: srun}
"""
)  # fmt: skip
NAMES = """\
name: names
scheduler: {type: slurm, gpu_type: a100}
launcher: {name: srun}
partitions: {gpu: {default: true, node_type: c}, small: {node_type: c}}
qos: {normal: {}, big: {partitions: [gpu], accounts: 'abc[0-9]+'}}
node_types:
  c: {count: 8, constraint: gpu&hbm80g, topology: {packages: 1, cores: 8, reserved: '0', gpus: {count: 2, numa: [0, 0]}}}
"""
LOCAL = "name: here\nscheduler: {type: local}\nlauncher: {name: local}\nnode_types: {n: {topology: {packages: 1, cores: 4}}}\n"
BARE = "name: bare\nscheduler: {type: slurm}\nlauncher: {name: srun}\n"
FABRIC = BARE + "fabric: {name: slingshot}\n"
OMNI_PATH = BARE + "fabric: {name: omni-path, libraries: [psm2-nccl]}\n"
SSD = SITE + "storage: {node_local: {path: /local, size: 1TB}}\n"


FIFTY = ["x"] * 50


class Case(NamedTuple):
    """A fault: the spec and site that have it, the words that it points at, and parts of what is said."""

    code: str
    spec: str
    at: str | None
    message: str
    help: str
    site: str = SITE


LIMITED = (
    BARE
    + """partitions:
  cpu: {default: true}
  short: {min_walltime: 5m, max_node_hours: 1.5}
"""
)

CAPPED = (
    BARE
    + """partitions:
  small: {default: true, node_type: g, max_gpus: 8, min_cores: 8, max_memory: 100GiB, max_jobs: 10}
  large: {node_type: g, min_gpus: 9, qos: big}
  cpu: {node_type: c}
qos:
  big: {max_gpus: 64}
  debug: {max_walltime: 30m, max_jobs: 2}
node_types:
  g: {topology: {packages: 2, cores: 16, gpus: {count: 4, numa: [0, 0, 1, 1]}}}
  c: {topology: {packages: 2, cores: 16}}
"""
)
TACC_LIKE = STRICT.replace("[account, memory]", "[]").replace("[constraint, qos]", "[hosts, gpus]").replace(
    "  mandatory: {filesystems: which file systems the job uses}\n", "  gpus: none\n  forbidden_options: [nice]\n"
) + "node_types: {g: {topology: {packages: 2, cores: 16, gpus: {count: 4, numa: [0, 0, 1, 1]}}}}\n"  # fmt: skip

FAULTS = [
    Case("DLR121", "environment: {variables: {RANK: '0'}}", "'0'", "`RANK: 0` gives all ranks the same value", "remove it", BARE),
    Case("DLR123", "command: [cd, src]", "cd", "`cd` is a word of the shell", "under `directory:`", BARE),
    Case("DLR125", "resources: {account: YOUR_ACCOUNT}", "YOUR_ACCOUNT", "`YOUR_ACCOUNT` is a placeholder",
         "the account that pays", BARE),
    Case("DLR127", "environment: {modules: [gcc cuda]}", "gcc", "`gcc cuda` is loaded as one module",
         "`modules: [gcc, cuda]`", BARE),
    Case("DLR133", "resources: {options: {mail_type: END}}", "END", "`mail_type` is not an option of slurm", "`mail-type`", BARE),
    Case("DLR128", "resources: {nodes: 3, hosts: [a, b]}", "[a", "the job has 3 nodes, but `hosts` lists 2", "`nodes: 2`", BARE),
    Case("DLR015", "resources: {nodes: 3}", "3}", "12 GPUs exceed the limit of partition `small`, 8",
         "request at most 8, or use partition `large`, which accepts it", CAPPED),
    Case("DLR015", "resources: {nodes: 1, cpus_per_rank: 1}", "1}", "`small` requires at least 8 cores, but the job requests 4",
         "request at least 8", CAPPED),
    Case("DLR015", "resources: {memory_per_node: 200GiB}", "200GiB}",
         "200GiB of memory on each node exceeds the limit of partition `small`, 100GiB", "request at most `100GiB`", CAPPED),
    Case("DLR015", "resources: {nodes: 20, partition: large}", "20,", "80 GPUs exceed the limit of QOS `big`, 64",
         "request at most 64, or use another QOS", CAPPED),
    Case("DLR014", "resources: {qos: debug, walltime: 1h}", "1h}", "walltime 1h exceeds the limit of QOS `debug`, 30m",
         "request at most `30m`", CAPPED),
    Case("DLR015", "sweep: {x: ['1', '2', '3']}\nresources: {qos: debug}\ncommand: [a, '{{ x }}']", "{x",
         "the sweep has 3 runs, but QOS `debug` allows at most 2 jobs per user at a time", "submit fewer runs", CAPPED),
    Case("DLR018", "resources: {partition: cpu, gpus_per_node: 4}", "4}", "4 GPUs per node, but `c` has none",
         "leave `gpus_per_node` out to train on CPUs, or use partition `small`", CAPPED),
    Case("DLR021", "resources: {hosts: [n1]}", "[n1]", "does not allow jobs to set `hosts`", "remove it", TACC_LIKE),
    Case("DLR021", "resources: {gpus_per_node: 2}", "2}", "does not allow jobs to set `gpus_per_node`", "remove it", TACC_LIKE),
    Case("DLR021", "resources: {options: {gres: 'gpu:4'}}", "'gpu:4'", "does not allow jobs to set the option `gres` (`gpus",
         "remove it", TACC_LIKE),
    Case("DLR021", "resources: {options: {nice: '5'}}", "'5'", "to set the option `nice`", "remove it", TACC_LIKE),
    Case("DLR062", "environment: {variables: {FI_MR_CACHE_MONITOR: memhooks}}\nresources: {gpus_per_node: 1}", "memhooks",
         "which is refused", "use userfaultfd", FABRIC),
    Case("DLR098", "environment: {variables: {UID: '7'}}", "'7'", "`UID` cannot be set: bash sets it",
         "use another name", BARE),
    Case("DLR098", "secrets: {DLRUN_X: {env: X}}", None, "names that begin with `DLRUN_`", "use another name", BARE),
    Case("DLR069", "environment: {drop: [RANK]}", "[RANK]", "`RANK` cannot be dropped", "remove it", BARE),
    Case("DLR063", "environment: {variables: {FI_CXI_RDZV_PROTO: alt_read}}", "alt_read",
         "belongs together with the option `disable_rdzv_get`", "options: {network: disable_rdzv_get}", FABRIC),
    Case("DLR010", "resources: {nodes: 2}", "2}", "a single machine, but the job requests 2 nodes", "use `nodes: 1`", LOCAL),
    Case("DLR011", "resources: {nodes: 3, ranks_per_node: 4, ranks: 4, gpus_per_node: 4}", "4, gpus",
         "4 ranks do not fill 3 nodes with 4 on each", "use 9 to 12 ranks"),
    Case("DLR012", "resources: {nodes: 2, partition: gpus}", "gpus}", "no partition `gpus`",
         "the nearest is `gpu`; it has `gpu`, `cpu`"),
    Case("DLR012", "resources: {nodes: 9, partition: gpus, walltime: 9d, memory_per_node: 9TB, cpus_per_rank: 99}", "gpus,",
         "no partition `gpus`", "the nearest is `gpu`"),
    Case("DLR015", "resources: {nodes: 9, qos: big}", "9,", "9 nodes of type `c` are requested, but site `names` has 8",
         "request at most 8", NAMES),
    Case("DLR075", "resources: {nodes: 2, partition: 'gpu,cpu'}", "'gpu,cpu'", "their `node_type` differs", "`any` for all"),
    Case("DLR117", "resources: {qos: bigg}", "bigg}", "site `names` has no QOS `bigg`", "the nearest is `big`", NAMES),
    Case("DLR117", "resources: {qos: big, partition: small}", "big,", "QOS `big` is not valid in partition `small`",
         "use partition `gpu`", NAMES),
    Case("DLR118", "resources: {constraint: 'hbm80|gpu'}", "'hbm80", "no node feature `hbm80`", "the nearest is `hbm80g`", NAMES),
    Case("DLR119", "resources: {gpus_per_node: 'h100:2'}", "'h100", "no GPUs of type `h100`", "it has `a100`", NAMES),
    Case("DLR023", "resources: {qos: big, account: other}", "other}", "account `other` may not use QOS `big`",
         "use another account", NAMES),
    Case("DLR019", "resources: {cpus_per_rank: 4}", "4}", "2 ranks of 4 cores need 8, but a node has 7 for jobs (1 are kept",
         "at most `cpus_per_rank: 3`", NAMES),
    Case("DLR013", "resources: {nodes: 2, node_type: gpux}", "gpux}", "no node type `gpux`", "the nearest is `gpu`"),
    Case("DLR014", "resources: {nodes: 2, walltime: 2d}", "2d}", "walltime 2d exceeds the limit of partition `gpu`, 1d",
         "request at most `1d`"),
    Case("DLR044", "resources: {nodes: 2, walltime: 2m}\ncheckpoint: {before_end: 2m}", "2m}",
         "the early signal is to be sent 2m before the end, but the walltime is 2m", "increase the walltime"),
    Case("DLR045", "resources: {nodes: 2}\non_failure: {requeue: 1, node_failed: stop}", "{requeue",
         "schedulers treat preemption and node failure alike", "the same policy"),
    Case("DLR015", "resources: {nodes: 9}", "9}", "9 nodes exceed the limit of partition `gpu`, 8", "at most 8"),
    Case("DLR015", "resources: {nodes: 1}", "1}", "at least 2 nodes, but the job requests 1", "at least 2"),
    Case("DLR014", "resources: {partition: short, walltime: 1m}", "1m}", "walltime 1m is below the minimum of partition `short`",
         "request at least `5m`, or use partition `cpu`, which accepts it", LIMITED),
    Case("DLR015", "resources: {partition: short, nodes: 4, walltime: 30m}", "30m}",
         "4 × 30m are 2 node-hours; the limit of partition `short` is 1.5", "at most `22m30s` on 4 nodes, or use partition `cpu`",
         LIMITED),
    Case("DLR016", "resources: {nodes: 2, ranks_per_node: 3}", "3}", "4 GPUs cannot be divided evenly among 3 ranks",
         "use a divisor"),
    Case("DLR017", "resources: {nodes: 2, memory_per_node: 1TB}", "1TB}", "jobs can use only 480GB",
         "at most `480GB`, or `all`"),
    Case("DLR018", "resources: {nodes: 2, gpus_per_node: 8}", "8}", "8 GPUs per node, but `gpu` has 4",
         "request at most 4"),
    Case("DLR019", "resources: {nodes: 2, cpus_per_rank: 20}", "20}", "4 ranks of 20 cores need 80, but a node has 32",
         "at most `cpus_per_rank: 8`"),
    Case("DLR020", "resources: {options: {filesystems: home}, memory_per_node: 1GB}", "resources:", "requires `account`",
         "add `account:` under `resources:`; `groups` lists yours", STRICT),
    Case("DLR021", "resources: {account: abc123, constraint: x, memory_per_node: 1GB, options: {filesystems: home}}",
         "x,", "does not allow jobs to set `constraint`", "remove it", STRICT),
    Case("DLR022", "resources: {account: abc123, memory_per_node: 1GB}", "resources:",
         "requires the scheduler option `filesystems`: which file systems", "add `options: {filesystems: …}`", STRICT),
    Case("DLR023", "resources: {account: abc, memory_per_node: 1GB, options: {filesystems: home}}", "abc,",
         "`abc` is not an account of `strict`", "`groups` lists yours", STRICT),
    Case("DLR024", "placement: {bind: plan}\nresources: {exclusive: true}", "plan}", "needs the topology of the nodes",
         "use `bind: job`", STRICT.partition("  required")[0] + "launcher: {name: srun}\n"),
    Case("DLR025", "placement: {bind: plan}\nresources: {partition: cpu, ranks_per_node: 20, exclusive: true}", "{bind",
         "20 ranks", ""),
    Case("DLR025", "placement: {comm_cores: 9}\nresources: {partition: cpu, exclusive: true}", "{comm_cores", "", ""),
    Case("DLR025", "placement: {loader_cores: 8}\nresources: {partition: cpu, exclusive: true}", "{loader_cores", "", ""),
    Case("DLR027", "resources: {nodes: 2}\ndata: {set: {source: /x/y, strategy: copy}}", "copy}",
         "needs node-local storage", "use `strategy: in_place`"),
    Case("DLR028", "framework: mpi\nlauncher: ssh\nresources: {nodes: 2}", "ssh", "`mpi` cannot be started by launcher `ssh`",
         "use one of `srun`, `openmpi`"),
    Case("DLR028", "launcher: local\nresources: {nodes: 2}", "local", "starts ranks only on one machine", "remove `launcher:`"),
    Case("DLR029", "resources: {nodes: 2}\ncommand: [a, '{{ nodez }}']", "'{{ nodez", "unknown name `nodez`",
         "the nearest is `nodes`"),
    Case("DLR029", "resources: {nodes: 2}\ncommand: ['{{ 1 / 0 }}']", "'{{ 1", "divides by zero", ""),
    Case("DLR029", "resources: {nodes: 2}\ncommand: [a, '{{ global_batch }}']", "'{{ global", "unknown name `global_batch`",
         "set `batch_per_rank:` to define it"),
    Case("DLR029", "environment: {variables: {LR: '{{ lr }}'}}\nsweep: {lr: [1, 2]}\ncommand: [./a, '{{ lr }}']", "'{{ lr }}'",
         "unknown name `lr`", "write it into the command: `[env, 'LR={{ lr }}', …]`", BARE),
    Case("DLR029", "secrets: {KEY: {env: KEY}}\ncommand: [a, '{{ env.KEY }}']", "'{{ env.KEY", "secret", "reads `KEY`", BARE),
    Case("DLR031", "launcher: openmpi\nresources: {nodes: 2}\nenvironment: {container: {image: x.sqsh, runtime: enroot}}",
         "enroot}", "the launcher is `openmpi`", "use `runtime: apptainer`"),
    Case("DLR066", "environment: {venv: /v, container: {image: x.sif}}\nresources: {nodes: 2}", "/v",
         "not available inside", "remove it"),
    Case("DLR066", "environment: {conda: base, container: {image: x.sif}}\nresources: {nodes: 2}", "base",
         "`conda: base`", "remove it"),
    Case("DLR067", "environment: {container: {image: x.sif}}\ndata: {set: '/x/a:b'}\nresources: {nodes: 2}", "'/x/a:b'",
         "a colon or a comma", "a symbolic link without these characters"),
    Case("DLR040", "resources: {nodes: 2}\nenvironment: {variables: {GLOO_SOCKET_IFNAME: lo}}", "[./train",
         "which other nodes cannot reach", "remove it"),
    Case("DLR041", "resources: {nodes: 2}\ntorch: {max_restarts: 2}", "{max", "`max_restarts` has an effect only on `torchrun`",
         "add `agent: true`"),
    Case("DLR041", "resources: {nodes: 2}\ntorch: {rendezvous: c10d}", "{rendez", "`rendezvous` has an effect only on `torchrun`",
         "add `agent: true`"),
    Case("DLR094", "framework: horovod\nhorovod: {agent: true}\nresources: {nodes: 2}\ncheckpoint: {signal: USR1}",
         "{signal", "signals do not reach", "remove `agent`"),
    Case("DLR094", "framework: horovod\nhorovod: {agent: true}\nresources: {nodes: 2}\nsecrets: {KEY: {env: KEY}}",
         "{env", "on the command line of ssh", "or read the secret from a file"),
    Case("DLR094", "framework: horovod\nhorovod: {agent: true}\nresources: {nodes: 2}\n"
         "environment: {container: {image: x.sif}}", "{image", "outside the container", "remove `agent`"),
    Case("DLR080", "sweep: {zip: {a: [1, 2], b: [3]}}", "[3]}}", "2 values of `a`, but 1 of `b`", "outside `zip`"),
    Case("DLR081", "sweep: {a: [1], zip: {a: [2]}}", "[1], zip", "in `zip` and in `grid`", "in one place"),
    Case("DLR082", "sweep: {list: [{a: 1}, {b: 1}]}", "{b: 1}]}", "point 2 of `sweep.list`", "all parameters"),
    Case("DLR083", "sweep: {world_size: [1, 2]}", "[1, 2]}", "`world_size` is a value of the plan", "`dlrun scale`"),
    Case("DLR083", "sweep: {host: [1, 2]}", "[1, 2]}", "`host` is a value of the plan", "`my_host`"),
    Case("DLR084", f"sweep: {{zip: {{a: {FIFTY}}}, b: {FIFTY}, c: {FIFTY}}}", "{zip", "125000 points", "fewer values"),
    Case("DLR140", "sweep: {points_per_node: 2, a: [1]}", "2, a", "no effect without `nodes`", "add `nodes`"),
    Case("DLR140", "sweep: {nodes: 2}", "2}", "no parameters", "add a parameter"),
    Case("DLR140", "sweep: {nodes: 2, points_per_node: 3, a: [1]}", "3, a", "4 GPUs of a node", "a divisor"),
    Case("DLR140", "sweep: {nodes: 2, a: [1]}\nverify: warn", "warn", "`verify` cannot be used yet", "are a job array"),
    Case("DLR140", "sweep: {nodes: 2, a: [1]}\nframework: ray", "ray", "beside or instead of the ranks", "are a job array"),
    Case("DLR140", "sweep: {nodes: 2, a: [1]}\nframework: mpi", "mpi", "needs a launcher of its own", "are a job array"),
    Case("DLR140", "sweep: {nodes: 2, a: [1]}", "2, a", "only on whole nodes of known topology", "are a job array"),
    Case("DLR140", "sweep: {nodes: 2, points_per_node: 2, a: [1]}\nresources: {exclusive: true}", "2, a: [1]}",
         "shows the ranks of a point the GPUs of all points", "are a job array"),
    Case("DLR140", "sweep: {nodes: 2, a: [1]}\ndata: {d: {source: /d, strategy: copy, keep: cache, start: 10%}}\n"
         "resources: {partition: cpu}", "{source", "`start` of data set `d` cannot be used yet", "are a job array", SSD),
    Case("DLR140", "sweep: {nodes: 1, points_per_node: 5, a: [1]}", "5, a", "5 ranks need 5 cores",
         "fewer `points_per_node`", LOCAL),
    Case("DLR140", "sweep: {nodes_per_point: 2, a: [1]}", "2, a", "no effect without `nodes`", "add `nodes`"),
    Case("DLR140", "sweep: {nodes: 2, nodes_per_point: 4, a: [1]}", "4, a", "needs 4 nodes, and the job has 2", "more `nodes`"),
    Case("DLR140", "sweep: {nodes: 4, nodes_per_point: 2, points_per_node: 2, a: [1]}", "2, a", "are both given", "remove one"),
    Case("DLR140", "sweep: {nodes: 4, nodes_per_point: 2, a: [1]}", "2, a", "this machine is one", "are a job array", LOCAL),
    Case("DLR140", "sweep: {nodes: 4, a: [1]}\nresources: {nodes: 2}", "2}", "`resources.nodes` cannot be used",
         "`nodes_per_point` under `sweep`"),
    Case("DLR140", "sweep: {nodes: 4, nodes_per_point: 2, a: [1]}\nframework: mpi", "2, a", "not on those of a point",
         "use another `launcher`", "name: t\nscheduler: {type: slurm}\nlauncher: {name: ibrun}\n"),
    Case("DLR140", "sweep: {nodes: 1, a: [1]}", "1, a", "torque cannot run the points", "are a job array",
         "name: t\nscheduler: {type: torque}\nlauncher: {name: ssh}\n"),
    Case("DLR142", "roles: {judge: {command: [a]}, b: {command: [b], needs: [jugde]}}\n", "jugde", "which is not in `roles`",
         "the nearest is `judge`", BARE),
    Case("DLR143", "roles: {a: {command: [a]}}\nhang: 10m", "10m", "when one of its servers has nothing to do",
         "the role that trains", BARE),
    Case("DLR085", "metrics: {a: '['}", "'['}", "not a regular expression", "single quotes"),
    Case("DLR085", "metrics: {a: 'b'}", "'b'}", "has no group", "parentheses"),
    Case("DLR085", "metrics: {a: {pattern: (b), json: b}}", "(b), json", "are given", "one of them"),
    Case("DLR085", "metrics: {a: {}}", "{}}", "its format in the log is not set", "json: KEY"),
    Case("DLR086", "metrics: {throughput: {of: steps}}", "steps}}", "counts steps", "batch_per_rank"),
    Case("DLR096", "data: {a: {source: /d, strategy: copy}}\nresources: {nodes: 2, walltime: 1h}", "{nodes",
         "does not set its size", "resources: {node_local: 200GB}",
         site="name: p\nscheduler: {type: slurm}\nlauncher: {name: srun}\n"
         "storage: {node_local: {path: $BB, lines: ['#DW jobdw capacity={gb}GB']}}\n"),
    Case("DLR109", "data: {a: {source: /d, strategy: pack, start: 10%}}\nresources: {nodes: 2}", "10%", "makes a single file",
         "remove one of the two", SSD),
    Case("DLR109", "data: {a: {source: /d, strategy: copy, start: 2 files, verify: true}}\nresources: {nodes: 2}", "2 files",
         "reads every copy back", "remove one of the two", SSD),
    Case("DLR109", "data: {b: {source: /e, start: 1GB, strategy: copy}, a: {source: /d, strategy: copy, start: 50%}}\n"
         "resources: {nodes: 2}", "50%", "`b` has `start`, too", "remove one of the two", SSD),
    Case("DLR109", "data: {a: {source: /d, strategy: copy, size: 10GB, start: 20GB}}\nresources: {nodes: 2}", "20GB",
         "data set `a` has only 10GB, less than its `start`", "a part of it, such as `10%`", SSD),
    Case("DLR110", "data: {a: 'gs://bucket/set'}\nresources: {nodes: 2}", "'gs", "`gs://bucket/set` is not on a file system",
         "gcloud storage rsync -r URL DIRECTORY", SSD),
    Case("DLR110", "data: {a: {source: 's3://bucket/set', strategy: shard}}\nresources: {nodes: 2}", "'s3",
         "`strategy: shard` reads the source on each node", "aws s3 sync URL DIRECTORY", SSD),
    Case("DLR110", "data: {a: 'hf://org/name@main/file'}\nresources: {nodes: 2}", "'hf",
         "`hf://org/name@main/file` names no repository of the hub", "`hf://datasets/ORG/NAME@REVISION` for a data set"),
    Case("DLR116", "data: {a: {source: /d, version: compute, strategy: shard}}\nresources: {nodes: 2}", "compute",
         "`version` of data set `a` is compared with a copy", "use `strategy: copy`", SSD),
    Case("DLR115", "data: {a: {source: 'https://h/f', credentials: {url: NO}}}", "{url", "needs the secret `NO`",
         "secrets: {NO: "),
    Case("DLR110", "data: {a: 's3://bucket/set'}\nresources: {nodes: 2}", "'s3", "there is no node-local storage",
         "aws s3 sync URL DIRECTORY"),
    Case("DLR146", "environment: {container: {image: /x.sif, runtime: enroot}}\n"
         "data: {a: {source: /d, strategy: image}}\nresources: {nodes: 2}", "image}",
         "before any program of the job could mount it", "use `strategy: copy` or `pack`", SSD),
    Case("DLR146", "environment: {container: {image: /x.sif, runtime: apptainer}}\n"
         "data: {a: {source: '/d/a:b.sqsh', strategy: image}}\nresources: {nodes: 2}", "image}",
         "takes a colon or a comma", "use `strategy: copy` or `pack`", SSD),
    Case("DLR146", "data: {a: {source: /d, exclude: ['*.txt'], strategy: image}}\nresources: {nodes: 2}", "image",
         "takes a whole directory", "use `strategy: copy` or `pack`", SSD),
    Case("DLR146", "data: {a: {source: /d, checksums: SHA256SUMS, strategy: image}}\nresources: {nodes: 2}", "image",
         "are of its files", "use `strategy: copy` or `pack`", SSD),
    Case("DLR146", "data: {a: {source: '/d/*', strategy: image}}\nresources: {nodes: 2}", "image",
         "takes a whole directory", "use `strategy: copy` or `pack`", SSD),
    Case("DLR146", "data: {a: {source: /d, strategy: image}}\nresources: {nodes: 2}", "image",
         "share their storage", "use `strategy: copy` or `pack`", SSD.replace("size: 1TB", "size: 1TB, scope: job")),
    Case("DLR141", "data: {a: {source: /d.tar, unpack: true, strategy: shard}}\nresources: {nodes: 2}", "true",
         "no node has all of it with `strategy: shard`", "leave out `strategy`", SSD),
    Case("DLR141", "data: {a: {source: /d.tar, unpack: true}}\nresources: {nodes: 2}", "true",
         "there is no node-local storage", "unpack it once"),
    Case("DLR141", "data: {a: {source: '/d/*.tar', unpack: true}}\nresources: {nodes: 2}", "true",
         "a glob may match several files", "name one archive", SSD),
    Case("DLR093", "results: {to: /r, before_end: 40m}\nresources: {nodes: 2, walltime: 1h}", "40m",
         "40m are reserved for copying the results", "increase the walltime"),
    Case("DLR092", "environment: {conda: base, stage: true}\nresources: {nodes: 2}", "true}", "the spec sets none",
         "set it with `venv:`"),
    Case("DLR092", "environment: {stage: true, container: {image: 'a#b:1', runtime: enroot}}\nresources: {nodes: 2}", "true,",
         "pyxis imports it", "name a file"),
    Case("DLR092", "environment: {venv: /v, stage: true}\ndata: {environment: /x/y}\nresources: {nodes: 2}", "/x/y",
         "is reserved for the staged venv", "another name"),
    Case("DLR091", "launcher: pals\nresources: {nodes: 2, spare_nodes: 1}", "1}", "on every granted node",
         "remove `spare_nodes`"),
]  # fmt: skip

WARNINGS = [
    Case("DLR140", "sweep: {nodes: 5, nodes_per_point: 2, a: [1]}", None, "1 node of 5 would run points only after",
         "a multiple of 2", BARE),
    Case("DLR139", "framework: intelcaffe\nresources: {nodes: 2}", "intelcaffe", "each may run alone, as rank 0 of 1",
         "`launcher: intelmpi`", BARE),
    Case("DLR120", "environment: {variables: {NCCL_DEBGU: INFO}}", None, "`NCCL_DEBGU` is not a variable of NCCL",
         "the nearest is `NCCL_DEBUG`", BARE),
    Case("DLR136", "command: [numactl, --cpunodebind=0, a]", None, "`numactl` binds all ranks of a node",
         "leave `numactl` out", BARE),
    Case("DLR131", "run: conda activate x && a", None, "`conda activate` fails in a job's shell", "{conda: x}", BARE),
    Case("DLR132", "hang: 2h\nresources: {walltime: 1h}", None, "`hang: 2h` is not shorter than the walltime, 1h", "`10m`", BARE),
    Case("DLR134", "environment: {variables: {NCCL_DEBUG: DEBUG}}", None, "`NCCL_DEBUG` has no value `DEBUG`", "`INFO`", BARE),
    Case("DLR135", "environment: {variables: {PATH: /opt/bin}}", None, "`PATH` is replaced", "{{ env.PATH }}", BARE),
    Case("DLR122", "environment: {variables: {CUDA_VISIBLE_DEVICES: '0'}}", None, "`CUDA_VISIBLE_DEVICES` is set by hand",
         "`gpus_per_node`", BARE),
    Case("DLR124", "command: [a, '--lr 0.1']", None, "`--lr 0.1` is one argument", "`--lr, 0.1`", BARE),
    Case("DLR130", "run: python t.py --token=$T\nsecrets: {T: {env: T}}", None, "secret `T` becomes an argument",
         "read the variable `T`", BARE),
    Case("DLR130", "run: 'curl -H \"Bearer ${T}\" https://h | tar x'\nsecrets: {T: {env: T}}", None,
         "which every user of a node can read with `ps`", "", BARE),
    Case("DLR126", "sweep: {x: 1-4}\ncommand: [a, '{{ x }}']", None, "`x` has one value, `1-4`", "`x: [1, 4]`", BARE),
    Case("DLR112", "command: [python, train.py, \u2013lr, '1']\nresources: {nodes: 2}", "\u2013lr", "is a typographic character",
         "write `--`"),
    Case("DLR068", "resources: {nodes: 2, ranks_per_node: 2}", "2}", "cores per rank are not set", "`cpus_per_rank`", BARE),
    Case("DLR016", "resources: {nodes: 2, ranks_per_node: 8}", None, "8 ranks share 4 GPUs on each node",
         "use `ranks_per_node: auto`"),
    Case("DLR026", "resources: {partition: cpu, ranks_per_node: 3, exclusive: true}", None, "core", "tune-affinity"),
    Case("DLR030", "resources: {nodes: 2}\nbatch_per_rank: 2048", None, "the global batch is 16384 (2048 × 8 ranks)",
         "scale the learning rate"),
    Case("DLR060", "environment: {variables: {NCCL_P2P_DISABLE: '1'}}", None, "`NCCL_P2P_DISABLE=1`, which is harmful",
         "leave it out", BARE),
    Case("DLR061", "environment: {variables: {NCCL_ASYNC_ERROR_HANDLING: '1'}}", None, "which is deprecated",
         "use TORCH_NCCL_ASYNC_ERROR_HANDLING", BARE),
    Case("DLR065", "environment: {drop: [NCCL_PROTO]}\nresources: {nodes: 2, gpus_per_node: 1}", None,
         "without `NCCL_PROTO`", "drop all of them", OMNI_PATH),
    Case("DLR069", "environment: {drop: [A], variables: {A: '1'}}", None, "unset by `drop`", "it stays unset", BARE),
    Case("DLR100", "command: [python, t.py, --out, $SCRATCH/ckpt]", None, "`$SCRATCH` is passed to the program unchanged",
         "under `run:`", BARE),
    Case("DLR100", "command: [./a, '|', tee, log]", None, "`|` is passed to the program unchanged", "under `run:`", BARE),
    Case("DLR100", "environment: {variables: {CACHE: ~/cache}}", None, "`~` in variable `CACHE`",
         "setup: ['export CACHE=…']", BARE),
    Case("DLR100", "command: [./a, --out, $SCRATCH/ckpt]", None, "`$SCRATCH`", "write `{{ env.SCRATCH }}/ckpt`", BARE),
    Case("DLR100", "command: [./a, '>log']", None, "`>log` is passed to the program", "under `run:`", BARE),
    Case("DLR100", "command: [./a, $(date)]", None, "`$(date)` is passed to the program", "under `run:`", BARE),
    Case("DLR100", "data: {d: $WORK/set}", None, "`$WORK` in the path", "only `~` and `$HOME`", BARE),
    Case("DLR100", "checkpoint: {path: /ckpt/$USER}", None, "`$USER` in the path", "write the path out", BARE),
    Case("DLR101", "sweep: {lr: [1, 2], wd: [3, 4]}\ncommand: [./a, '{{ lr }}']", None, "sweep parameter `wd`",
         "put `{{ wd }}`", BARE),
    Case("DLR102", "environment: {venv: /v, conda: base}", None, "both conda environment `base` and venv `/v`",
         "remove the other one", BARE),
    Case("DLR103", "resources: {nodes: 2, gpus_per_node: 0, exclusive: true}", None, "whole nodes with 4 GPUs",
         "set `gpus_per_node: 4`"),
    Case("DLR103", "resources: {partition: gpu}", None, "partition `gpu` seems to have GPUs", "set `gpus_per_node`", BARE),
    Case("DLR106", "resources: {nodes: 2, ranks_per_node: 33, gpus_per_node: 0}", None, "33 ranks share the 32 cores",
         "at most 32 ranks"),
    Case("DLR107", "resources: {memory_per_node: 200G}", None, "`200GB` is 190734 MiB", "write `200GiB`", BARE),
    Case("DLR104", "resources: {nodes: 2, cpus_per_rank: 3, exclusive: true}", None, "each rank is bound to 8 cores",
         "leave `cpus_per_rank` out"),
    Case("DLR111", "resources: {nodes: 2, ranks_per_node: 1, gpus_per_node: 1}", None, "no interface is known",
         "`fabric.interfaces`", f"{BARE}fabric: {{name: ethernet}}\n"),
    Case("DLR090", "fabric_check: warn\nresources: {nodes: 2}", "warn", "are unknown", "set `fabric.name`", BARE),
]  # fmt: skip


@pytest.mark.parametrize("case", FAULTS, ids=lambda c: f"{c.code}-{c.spec[:40]}")
def test_fault(case, tmp_path):
    with pytest.raises(InvalidFile) as raised:
        plan_of(tmp_path, case.spec, case.site)
    found = [p for p in raised.value.problems if p.code == case.code and case.message in p.message]
    assert len(found) == 1, raised.value.problems
    (problem,) = found
    assert not problem.warning
    assert case.help in problem.help
    assert problem.help
    assert problem.origin is not None
    text = raised.value.sources[problem.origin.name].splitlines()[problem.origin.line - 1]
    if case.at is not None:
        assert text[problem.origin.column - 1 :].startswith(case.at)


@pytest.mark.parametrize("case", WARNINGS, ids=lambda c: c.code)
def test_warning(case, tmp_path):
    plan = plan_of(tmp_path, case.spec, case.site)
    (warning,) = [w for w in plan.warnings if f"({case.code})" in w]
    assert case.message in warning
    assert case.help in warning


@pytest.mark.parametrize(
    "before", ["module load conda", "ml Miniforge3", "source ~/conda/etc/profile.d/conda.sh", ". ~/.bashrc"]
)
def test_conda_whose_functions_a_line_before_may_define(before, tmp_path):
    plan = plan_of(tmp_path, f"environment: {{setup: ['{before}', conda activate x]}}", BARE)
    assert not [w for w in plan.warnings if "DLR131" in w]


@pytest.mark.parametrize(
    "run",
    [
        "U=$T python t.py",
        "export U=$T; python t.py",
        "printf %s $T | login --stdin",
        'login <<< "$T"',
        "python t.py '$T' $TX",
        "[[ -n $T ]] && python t.py",
        "python t.py ${#T}",
    ],
)
def test_a_secret_that_no_other_process_gets_as_an_argument(run, tmp_path):
    spec = f"run: {json.dumps(run)}\nsecrets: {{T: {{env: T}}}}"
    assert not any("DLR130" in warning for warning in plan_of(tmp_path, spec, BARE).warnings)


def test_all_faults_come_at_once_sorted_by_place(tmp_path):
    spec = "resources:\n  nodes: 9\n  walltime: 3d\n  gpus_per_node: 8\nlauncher: local\n"
    with pytest.raises(InvalidFile) as raised:
        plan_of(tmp_path, spec, SITE)
    assert [p.code for p in raised.value.problems] == ["DLR015", "DLR014", "DLR018", "DLR028"]


def test_a_plan_without_faults_has_no_warnings(tmp_path):
    assert plan_of(tmp_path, "resources: {nodes: 2, walltime: 1h}", SITE).warnings == ()


@pytest.mark.parametrize(
    "spec",
    [
        "resources: {nodes: 2, walltime: 24h}",
        "resources: {nodes: 8}",
        "resources: {nodes: 2, memory_per_node: 480GB}",
        "resources: {nodes: 2, cpus_per_rank: 8}",
        "resources: {nodes: 2, gpus_per_node: 0, ranks_per_node: 3}",
        "resources: {nodes: 2, ranks_per_node: 2}",
        "data: {set: {source: /x/y}}\nresources: {nodes: 2}",
        "torch: {agent: true, max_restarts: 1}\nresources: {nodes: 2}",
        "environment: {variables: {GLOO_SOCKET_IFNAME: lo}}\nresources: {partition: cpu}",
    ],
)
def test_limits_are_still_allowed(spec, tmp_path):
    assert plan_of(tmp_path, spec, SITE).request.nodes


@pytest.mark.parametrize(
    ("data", "strategy", "path", "because"),
    [
        ("source: /x", "part", "$DLRUN_DATA_SET", "its size is unknown at submission"),
        ("source: /x, size: 2TB", "part", "$DLRUN_DATA_SET", "its 2TB does not fit the 1TB"),
        ("source: /x, size: 20TB", "in_place", "/x", "its 20TB does not fit the 1TB"),
        (
            "source: /x, size: 400GB, strategy: part",
            "part",
            "$DLRUN_DATA_SET",
            "from the spec: all of it fits",
        ),
        ("source: 's3://bucket/set'", "copy", "$DLRUN_DATA_SET", "the first node fetches it"),
        ("source: /x, size: 10GB", "copy", "$DLRUN_DATA_SET", "its 10GB fits"),
        ("source: /x, strategy: shard", "shard", "$DLRUN_DATA_SET", "from the spec"),
        ("source: /x, strategy: in_place, size: 1GB", "in_place", "/x", "from the spec"),
    ],
)
def test_where_data_lies(data, strategy, path, because, tmp_path):
    plan = plan_of(tmp_path, f"resources: {{nodes: 2}}\ndata: {{set: {{{data}}}}}", SSD)
    (found,) = plan.data
    assert (found.strategy, str(found.path)) == (strategy, path)
    assert because in found.because
    told = {v.name: str(v.value) for v in plan.variables}.get("DLRUN_DATA_SET")
    assert told == (
        path if strategy == "in_place" else None
    )  # what is copied tells its path when it is there


def test_a_portable_number_of_gpus_is_accepted_where_nodes_come_with_as_many(tmp_path):
    plan = plan_of(tmp_path, "resources: {nodes: 2, gpus_per_node: 4}", TACC_LIKE)
    assert plan.request.ranks_per_node == 4
    assert not any("gpu" in directive.text for directive in plan.directives)


def codes_in(directory: Path) -> set[str]:
    texts = (p.read_text("utf-8") for p in directory.rglob("*.py") if not p.name.endswith("codes.py"))
    return {code for text in texts for code in re.findall(r'"(DLR\d{3})"', text)}


def test_every_code_is_documented_and_every_documented_code_is_used():
    assert codes_in(PACKAGE) == set(CODES)
    for title, text in CODES.values():
        assert title == title.rstrip(".")
        assert text.endswith(".")


def test_every_code_of_the_plan_is_tested_here():
    assert codes_in(PACKAGE / "plan") <= {c.code for c in (*FAULTS, *WARNINGS)}
