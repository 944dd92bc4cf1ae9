"""A rank's placement is compared twice: in Python by `dlrun verify`, in bash by a job with `verify: fail`. The same plans and
observations go to both, and both must find the same, in the same words."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict, dataclass, field, replace

import pytest
from hypothesis import given, settings, strategies as st

from dlrun.model.cpuset import format_list, parse_list
from dlrun.model.placement import MemoryBinding
from dlrun.node.checks.check_rank import gpu_devices
from dlrun.node.checks.placement_probe import policy_in
from dlrun.plan.affinity.observed import wrong_cpus, wrong_gpus, wrong_memory, wrong_threads
from dlrun.resources import directory as resource
from tests.examples import examples

LIBRARY = "\n".join((resource("templates") / "lib" / name).read_text() for name in ("bind.sh", "checks.sh"))
VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")


@dataclass(frozen=True)
class Case:
    """What was planned for a rank, and what there is. As planned, if nothing else is said."""

    cpus: str = "0-3"
    memory: MemoryBinding = MemoryBinding(policy="preferred", nodes=(0,))
    gpus: tuple[int, int] = (4, 1)
    given: str | None = "CUDA_VISIBLE_DEVICES=3"
    allowed: str = "0-3"
    maps: str = "55cd538d7000 prefer:0 file=/usr/bin/head mapped=2 N0=2 kernelpagesize_kB=4"
    environment: dict[str, str] = field(
        default_factory=lambda: {"CUDA_VISIBLE_DEVICES": "3", "OMP_NUM_THREADS": "4"}
    )
    devices: tuple[int, int] | None = (4, 4)


def in_python(case: Case) -> list[str]:
    """What `dlrun verify` finds."""
    seen = {name: case.environment[name] for name in VISIBLE if name in case.environment}
    cards = case.environment.get("ZE_FLAT_DEVICE_HIERARCHY") == "COMPOSITE"
    gpus = wrong_gpus(case.gpus[1], case.gpus[0], case.given, seen, case.devices, cards=cards)
    found = [
        wrong_threads(4, case.environment.get("OMP_NUM_THREADS")),
        wrong_cpus(parse_list(case.cpus), [parse_list(case.allowed)]),
        wrong_memory(case.memory, *policy_in(case.maps)),
        gpus[0] if gpus else None,
    ]
    return [what for what in found if what]


def in_bash(cases: list[Case]) -> list[list[str]]:
    """What a job's own check finds; the kernel's answers are put in its place."""
    script = [LIBRARY, "set -uo pipefail", 'head() { printf "%s" "$maps"; }']
    for case in cases:
        may, total = case.devices or (0, 0)
        option = case.memory.numactl()
        lines = [
            f"unset {' '.join(VISIBLE)} OMP_NUM_THREADS ZE_FLAT_DEVICE_HIERARCHY",
            *(f"export {name}='{value}'" for name, value in case.environment.items()),
            f"_dlrun_count_gpus() {{ may={may} total={total}; }}",
            f"_dlrun_granted={case.allowed} _dlrun_gpus='{case.given or ''}' maps='{case.maps}' DLRUN_THREADS=4",
            f"_dlrun_planned=({case.cpus}{f' {option}' if option else ''})",
            f"_dlrun_compare_placement yes {case.gpus[0]} {case.gpus[1]} 4 4",
            'echo "$fault"',
        ]
        script += lines
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert not done.stderr
    return [line.split(", ") if line else [] for line in done.stdout.splitlines()]


def cuda(value: str | None, **more: str) -> dict[str, str]:
    """The environment of a rank, with CUDA's variable or without."""
    return {"OMP_NUM_THREADS": "4", **({} if value is None else {"CUDA_VISIBLE_DEVICES": value}), **more}


def strict(*nodes: int) -> MemoryBinding:
    return MemoryBinding(policy="strict", nodes=nodes)


RIGHT = Case()
CASES = {
    "as planned": (RIGHT, []),
    "cores: others": (replace(RIGHT, allowed="4-7"), ["may use CPUs 4-7, not 0-3"]),
    "cores: too few": (replace(RIGHT, allowed="0-1"), ["may use CPUs 0-1, not 0-3"]),
    "cores: too many": (replace(RIGHT, allowed="0-63"), ["may use CPUs 0-63, not 0-3"]),
    "memory: another node": (
        replace(RIGHT, maps="7f prefer:1 N1=2"),
        ["memory policy is preferred:1, not preferred:0"],
    ),
    "memory: nodes more": (
        replace(RIGHT, maps="7f prefer (many):0-1 N1=2"),
        ["memory policy is preferred:0-1, not preferred:0"],
    ),
    "memory: several nodes as planned": (
        replace(
            RIGHT, memory=MemoryBinding(policy="preferred", nodes=(1, 0)), maps="7f prefer (many):0-1 N1=2"
        ),
        [],
    ),
    "memory: with flags": (replace(RIGHT, maps="7f prefer=static:0 N1=2"), []),
    "memory: another policy": (
        replace(RIGHT, maps="7f bind:0 N0=1"),
        ["memory policy is strict:0, not preferred:0"],
    ),
    "memory: no policy": (
        replace(RIGHT, maps="7f default file=/x"),
        ["memory policy is none, not preferred:0"],
    ),
    "memory: local": (replace(RIGHT, maps="7f local file=/x"), ["memory policy is none, not preferred:0"]),
    "memory: interleaved": (
        replace(RIGHT, maps="7f interleave:0-1 N0=1"),
        ["memory policy is interleave:0-1, not preferred:0"],
    ),
    "memory: interleaved by weight": (
        replace(RIGHT, maps="7f weighted interleave:0-1 N0=1"),
        ["memory policy is interleave:0-1, not preferred:0"],
    ),
    "memory: strict as planned": (replace(RIGHT, memory=strict(4, 5), maps="7f bind:4-5 N4=1"), []),
    "memory: strict, another node": (
        replace(RIGHT, memory=strict(4, 5), maps="7f bind:4 N4=1"),
        ["memory policy is strict:4, not strict:4-5"],
    ),
    "memory: not reported": (replace(RIGHT, maps=""), []),
    "memory: left open": (replace(RIGHT, memory=MemoryBinding(), maps="7f bind:1 N1=1"), []),
    "GPU: another": (replace(RIGHT, environment=cuda("2")), ["CUDA_VISIBLE_DEVICES is 2, not 3"]),
    "GPU: not set": (replace(RIGHT, environment=cuda(None)), ["CUDA_VISIBLE_DEVICES is not set, not 3"]),
    "GPU: within a grant": (
        replace(RIGHT, given="CUDA_VISIBLE_DEVICES=0", environment=cuda("0")),
        [],
    ),
    "GPU: none was granted": (
        replace(RIGHT, given="CUDA_VISIBLE_DEVICES=", environment=cuda("")),
        ["CUDA_VISIBLE_DEVICES is ``, fewer than 1 GPUs"],
    ),
    "GPU: fewer than planned": (
        replace(RIGHT, gpus=(4, 2), given=None, environment=cuda("GPU-aa,-1")),
        ["CUDA_VISIBLE_DEVICES is `GPU-aa,-1`, fewer than 2 GPUs"],
    ),
    "GPU: hidden by a second variable": (
        replace(RIGHT, environment=cuda("3", HIP_VISIBLE_DEVICES="-1")),
        ["HIP_VISIBLE_DEVICES is `-1`, fewer than 1 GPUs"],
    ),
    "GPU: may not be opened": (
        replace(RIGHT, devices=(0, 4)),
        ["may open 0 of the 4 GPUs of its node, and the plan gives it 1"],
    ),
    "GPU: one was lost": (
        replace(RIGHT, given=None, environment=cuda(None), devices=(3, 3)),
        ["finds 3 GPUs on its node, not 4"],
    ),
    "GPU: parts of one": (
        replace(RIGHT, gpus=(7, 1), given=None, environment=cuda("MIG-aa"), devices=(1, 1)),
        [],
    ),
    "GPU: a card of several tiles": (
        replace(
            RIGHT,
            gpus=(4, 2),
            given=None,
            environment=cuda(None, ZE_AFFINITY_MASK="1", ZE_FLAT_DEVICE_HIERARCHY="COMPOSITE"),
        ),
        [],
    ),
    "GPU: one tile of a card": (
        replace(
            RIGHT,
            gpus=(4, 2),
            given=None,
            environment=cuda(None, ZE_AFFINITY_MASK="1.0", ZE_FLAT_DEVICE_HIERARCHY="COMPOSITE"),
        ),
        ["ZE_AFFINITY_MASK is `1.0`, fewer than 2 GPUs"],
    ),
    "GPU: not NVIDIA's": (replace(RIGHT, given=None, environment=cuda(None), devices=None), []),
    "GPU: none asked": (replace(RIGHT, gpus=(0, 0), given=None, environment=cuda("")), []),
    "threads": (
        replace(RIGHT, environment={"CUDA_VISIBLE_DEVICES": "3", "OMP_NUM_THREADS": "1"}),
        ["OMP_NUM_THREADS is 1, not 4"],
    ),
    "threads: not set": (replace(RIGHT, environment={"CUDA_VISIBLE_DEVICES": "3"}), []),
    "everything": (
        Case(allowed="8", maps="7f default", environment={"OMP_NUM_THREADS": "9"}),
        [
            "OMP_NUM_THREADS is 9, not 4",
            "may use CPUs 8, not 0-3",
            "memory policy is none, not preferred:0",
            "CUDA_VISIBLE_DEVICES is not set, not 3",
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_both_find_each_difference(name):
    case, differences = CASES[name]
    assert in_python(case) == differences
    assert ", ".join(in_bash([case])[0]) == ", ".join(differences)


@st.composite
def cases(draw) -> Case:
    """Any plan beside any observation, mostly near one another."""
    some = st.sampled_from(["0-3", "0", "1,3", "4-7,12-15", "0-7"])
    nodes = st.sampled_from([(0,), (1,), (0, 1), (0, 1, 2), (1, 3)])
    policy = draw(st.sampled_from(["strict", "preferred", "preferred", "none"]))
    kind = draw(
        st.sampled_from(
            ["bind", "prefer", "prefer (many)", "default", "local", "interleave", "weighted interleave"]
        )
    )
    where = "" if kind in ("default", "local") else f":{format_list(draw(nodes))}"
    flag = draw(st.sampled_from(["", "", "=static", "=relative"])) if where else ""
    value = st.sampled_from(
        ["", "-1", "NoDevFiles", "0", "3", "0,1", "2,3", "GPU-aa,GPU-bb", "MIG-aa", "0.0,0.1", "0,-1"]
    )
    given_value = draw(st.none() | value)
    seen = draw(st.dictionaries(st.sampled_from(VISIBLE), value, max_size=2))
    if given_value is not None and draw(st.booleans()):
        seen["CUDA_VISIBLE_DEVICES"] = given_value
    threads = draw(st.sampled_from([{}, {"OMP_NUM_THREADS": "4"}, {"OMP_NUM_THREADS": "1"}]))
    total = draw(st.integers(0, 8))
    per_node = draw(st.sampled_from([0, 1, 4, 8]))
    return Case(
        cpus=draw(some),
        allowed=draw(some),
        memory=MemoryBinding(policy=policy, nodes=() if policy == "none" else draw(nodes)),
        maps=draw(st.just("") | st.just(f"7f {kind}{flag}{where} file=/x N0=1")),
        gpus=(per_node, draw(st.integers(min(1, per_node), per_node))),
        given=None if given_value is None else f"CUDA_VISIBLE_DEVICES={given_value}",
        environment={**{name: seen[name] for name in VISIBLE if name in seen}, **threads},
        devices=(draw(st.integers(0, total)), total) if total else None,
    )


@settings(max_examples=examples(100), deadline=None)
@given(drawn=st.lists(cases(), min_size=1, max_size=10))
def test_both_find_the_same_of_anything(drawn):
    for case, found in zip(drawn, in_bash(drawn), strict=True):
        assert ", ".join(found) == ", ".join(in_python(case)), json.dumps(asdict(case))


def test_both_count_the_same_gpus(tmp_path):
    for name in ("nvidia0", "nvidia1", "nvidia11", "nvidiactl", "nvidia-uvm", "nvidia1x"):
        (tmp_path / name).write_text("")
    (tmp_path / "nvidia2").mkdir()  # cannot be opened, not even by root
    script = f'{LIBRARY}\n_dlrun_count_gpus {tmp_path}; echo "$may $total"; ls {tmp_path} | wc -l'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    may, total, names = map(int, done.stdout.split())
    assert [may, total] == gpu_devices(str(tmp_path)) == [3, 4]
    assert names == 7


@pytest.mark.needs("numactl")
@pytest.mark.parametrize(
    "planned", ["--preferred=0", "--preferred=1", "--membind=0", "--membind=0-1", "--preferred-many=0-1"]
)
@pytest.mark.parametrize("real", ["--preferred=0", "--preferred-many=0", "--membind=0", ""])
def test_what_this_kernel_reports_is_compared(planned, real):
    """The planned policy beside a real one, which a kernel without NUMA does not report."""
    wrap = f"(numactl {real} --)" if real else "()"
    if real and subprocess.run(["numactl", real, "--", "true"], capture_output=True, check=False).returncode:
        pytest.skip(f"numactl has no {real} here")
    done = subprocess.run(
        [
            "bash",
            "-c",
            f'{LIBRARY}\nfault= _dlrun_memory={wrap}; _dlrun_compare_memory {planned}; echo "$fault"',
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {"--preferred": "preferred", "--preferred-many": "preferred", "--membind": "strict"}
    option, _, nodes = planned.partition("=")
    seen, _, its = real.partition("=")
    want, have = f"{names[option]}:{nodes}", f"{names[seen]}:{its}" if real else "none"
    assert done.stdout.strip(", \n") == ("" if want == have else f"memory policy is {have}, not {want}")
