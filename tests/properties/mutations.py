"""Specs broken in every way that a slip of the hand, an editor or an attacker can: text in, text out."""

from __future__ import annotations

import random

SPEC = """\
# a spec that says nearly everything
name: resnet50
framework: torch
site: workstation
command: [python, train.py, --lr, "{{ 0.1 * global_batch / 256 }}", --data, "{{ data.imagenet }}"]
batch_per_rank: 64
directory: ~/work
resources:
  nodes: 16
  ranks_per_node: auto
  cpus_per_rank: 8
  gpus_per_node: 4
  memory_per_node: 256GiB
  walltime: 10:00:00
  partition: gpu
  account: abc123
  hosts: [n1, "n[2-16]"]
  exclusive: true
  options: {filesystems: home:eagle}
placement: {bind: plan, threads: 7, comm_cores: 1, memory: strict}
environment:
  modules: [gcc/13, cuda/12.6]
  venv: ~/envs/torch
  variables:
    NCCL_DEBUG: WARN
    OMP_NUM_THREADS: 4
  setup: |
    source /etc/profile
    ulimit -s unlimited
data:
  imagenet: {source: /scratch/datasets/imagenet, strategy: shard, include: ["*.tar"]}
  words: /scratch/words
checkpoint: {signal: USR1, before_end: 120s, to: first}
on_failure: {requeue: 2}
after: [1234, {job: earlier, when: any}]
secrets:
  HF_TOKEN: {env: HF_TOKEN}
  WANDB_API_KEY: {file: ~/.wandb}
sweep: {lr: [0.1, 0.2], seed: [1, 2, 3]}
torch: {agent: true, max_restarts: 3}
"""

SITE = """\
name: cluster
title: A cluster
centre: A centre
confidence: high
sources: [{cite: "https://example.org", date: 2025-01, covers: [scheduler, partitions.gpu]}]
recognise: {cluster_name: cluster, hosts: ["login*"]}
login: {host: login.example.org, transport: openssh}
extends: generic-slurm
scheduler:
  type: slurm
  version: "23.11"
  account: {option: --account, pattern: "[a-z]+[0-9]{3}", help: ask}
  required: [account, walltime]
  forbidden: [memory]
  mandatory: {filesystems: where your data are}
  directives: [--export=NONE]
  gpus: gres
  exclusive: true
launcher: {name: srun, arguments: [--kill-on-bad-exit=1], mpi: pmix}
partitions:
  gpu: {default: true, node_type: big, max_walltime: 1-00:00:00, default_walltime: 1h, min_nodes: 1, max_nodes: 64}
  cpu: {queue: "-", qos: normal}
node_types:
  big:
    count: 64
    memory: 512GiB
    topology: {packages: 2, cores: 32, smt: 2, numa_per_package: 4, gpus: {count: 4, numa: [0, 2, 4, 6]}, nics: [mlx5_0]}
  small: {capture: small.xml}
fabric: {name: infiniband, interfaces: [ib0], versions: {nccl: 2.21}, settings: {NCCL_IB_HCA: mlx5}, drop: [NCCL_DEBUG]}
rendezvous: {address: interface, interface: ib0, ports: [20000, 29999]}
storage: {node_local: {path: $TMPDIR, size: 1TB}, shared: [/scratch]}
environment: {setup: [module reset], modules: [gcc], hygiene: reset, variables: {A: b}}
gpu_binding: {policy: visible}
billing: {unit: core-hours, factor: 64}
defaults: {resources: {walltime: 1h}, torch: {agent: true}}
"""

NASTY = (
    "", " ", "\n", "\n\n", "\t", ":", ": ", "- ", "? ", "#", "[", "]", "{", "}", "{{", "}}", "'",
    '"', "\\", "\\x", "|", ">", "|2", "&a ", "*a", "<<: *a", "!!int ",
    "!!python/object/apply:os.system [id]", "---\n", "...\n", "%YAML 1.2\n", "~", "null", "yes",
    "no", "true", "0", "-1", "1e400", "9" * 400, "9" * 5000, "0x7fffffffffffffff", "1_000", ".inf",
    ".nan", "10:00:00", "99999999999d", "1e9h", "٣", "½", "\x00", "\x07", "\x1b[2J", "\x7f", "\x85",
    "\u2028", "\ufeff", "\ud800", "\uffff", "é", "日本語", "😀", "$(id)", "`id`", "; touch /tmp/x; ",
    "${IFS}", "../" * 50, "a" * 3000, "[" * 100, "{a: " * 100, "- " * 200, "'" * 31, '"\\ud800"',
    '"\\U0010ffff"', '"\\0"', "{{ 1/0 }}", "{{ x.__class__ }}", "{{ '%s' % range(9**9) }}",
    "{{ 9**9**9 }}", "{% raw %}", "name: x\n", "nodes: 0\n", "resources:\n", "  ", "HF_TOKEN: x\n",
)  # fmt: skip


def mutate(text: str, chance: random.Random) -> str:
    """The text with one to six things wrong."""
    for _ in range(chance.choice((1, 1, 1, 1, 2, 2, 3, 6))):
        text = chance.choice(_MUTATIONS)(text, chance)
    return text


def _insert(text: str, chance: random.Random) -> str:
    at = chance.randint(0, len(text))
    return text[:at] + chance.choice(NASTY) + text[at:]


def _delete(text: str, chance: random.Random) -> str:
    at = chance.randint(0, len(text))
    return text[:at] + text[at + chance.choice((1, 1, 2, 5, 30)) :]


def _replace_value(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    index = chance.randrange(len(lines))
    head, colon, _ = lines[index].partition(":")
    lines[index] = head + colon + " " + chance.choice(NASTY)
    return "\n".join(lines)


def _swap_lines(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    a, b = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return "\n".join(lines)


def _repeat_line(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    index = chance.randrange(len(lines))
    return "\n".join([*lines[:index], lines[index], *lines[index:]])


def _indent(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    index = chance.randrange(len(lines))
    lines[index] = chance.choice((" ", "  ", "\t", "")) + (
        lines[index].lstrip() if chance.random() < 0.5 else lines[index]
    )
    return "\n".join(lines)


def _other_value(text: str, chance: random.Random) -> str:
    """Exchange the values of two keys: right words in wrong places."""
    lines = text.split("\n")
    a, b = chance.randrange(len(lines)), chance.randrange(len(lines))
    first, second = lines[a].partition(":"), lines[b].partition(":")
    lines[a], lines[b] = first[0] + first[1] + second[2], second[0] + second[1] + first[2]
    return "\n".join(lines)


def _cut(text: str, chance: random.Random) -> str:
    return text[: chance.randint(0, len(text))]


_MUTATIONS = (
    _insert,
    _insert,
    _delete,
    _replace_value,
    _replace_value,
    _swap_lines,
    _repeat_line,
    _indent,
    _other_value,
    _cut,
)
