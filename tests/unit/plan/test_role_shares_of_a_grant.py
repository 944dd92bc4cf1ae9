"""Roles that share a node of which not all cores were granted: whatever was, no core belongs to two of them."""

from __future__ import annotations

import itertools
import os
import random
import re
import subprocess

import pytest

from dlrun.affinity.bind import library
from dlrun.model.cpuset import format_list, parse_list
from dlrun.resources import directory as resource
from tests.making import LOCAL, plan_of, scripts_of
from tests.oracles.granted_cpus import Node
from tests.unit.plan.test_role_jobs import SITE
from tests.unit.plan.test_role_shares import BESIDE

TWO = "roles: {a: {command: [a], %s}, b: {command: [b], needs: [a], %s}}\nplacement: {reserve: '%s'}\n"
SMALL = LOCAL + "node_types: {n: {topology: {packages: 2, cores: 3, smt: 2}}}\n"
RANK = """\
_dlrun_taskset() { :; }
_dlrun_system=$SYSTEM
while read -r _dlrun_granted role DLRUN_LOCAL_RANK DLRUN_LOCAL_SIZE; do
  _dlrun_shared= _dlrun_cpus= _dlrun_too_few= _dlrun_lacks=
  "$role" >"$SYSTEM/notes" 2>&1
  echo "$_dlrun_granted $role $_dlrun_cpus"
done
"""


def ranks_of(plan, made):
    """Role -> the number of its ranks on a node, and the lines of its page that bind them."""
    found = {}
    for role in plan.role_jobs.jobs:
        page = made[f"roles/{role.name}/rank.sh"]
        (lines,) = re.findall(r"^dlrun_take_part.*?^esac", page, re.MULTILINE | re.DOTALL)
        found[role.name] = (role.plan.request.ranks_per_node, lines)
    return found


def bound(tmp_path, node, ranks, grants):
    """Grant -> role -> the hardware threads of each of its ranks, as the pages bind them."""
    node.write(tmp_path / "system")
    functions = "\n".join(f"{name}() {{\n{lines}\n}}" for name, (_, lines) in ranks.items())
    place = (resource("templates") / "lib/place.sh").read_text()
    text = "\n".join(
        f"{grant} {name} {rank} {count}"
        for grant in grants
        for name, (count, _) in ranks.items()
        for rank in range(count)
    )
    ran = subprocess.run(
        ["bash", "-c", f"set -uo pipefail\n{library()}\n{place}\n{functions}\n{RANK}"],
        input=text + "\n", env={"PATH": os.environ["PATH"], "SYSTEM": str(tmp_path / "system")},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr + (tmp_path / "system/notes").read_text()
    found = {}
    for line in ran.stdout.splitlines():
        grant, role, *cpus = line.split(" ")
        found.setdefault(grant, {}).setdefault(role, []).append(
            set(parse_list(cpus[0])) if cpus[0] else set()
        )
    assert list(found) == list(grants), ran.stdout
    return found


def check(node, found, planned, kept=frozenset()):
    for grant, roles in found.items():
        granted = set(parse_list(grant))
        core = {pu: pu % node.count for pu in granted}
        whole = {core[pu] for pu in granted}
        free = {core[pu] for pu in granted - kept}
        ranks = [cpus for each in roles.values() for cpus in each]
        if len(whole) < len(ranks):
            assert not any(ranks), f"{grant}: fewer cores than ranks, and some are bound: {roles}"
            continue
        for cpus in ranks:
            assert cpus, f"{grant}: a rank is not bound: {roles}"
            assert cpus <= granted, f"{grant}: {roles}"
        for one, other in itertools.combinations(ranks, 2):
            assert not {core[pu] for pu in one} & {core[pu] for pu in other}, f"{grant}: shared: {roles}"
        if len(free) >= len(ranks):
            assert not kept & set().union(*ranks), f"{grant}: reserved cores are used: {roles}"
        if set().union(*(cpus for each in planned.values() for cpus in each)) <= granted:
            assert roles == planned, f"{grant}: all that is planned was granted"


@pytest.mark.parametrize(
    ("first", "second", "reserve"),
    [
        ("ranks_per_node: 1", "ranks_per_node: 1", "none"),
        pytest.param("ranks_per_node: 2", "ranks_per_node: 1", "none", marks=pytest.mark.slow),
        pytest.param("cpus_per_rank: 4", "ranks_per_node: 2", "none", marks=pytest.mark.slow),
        pytest.param("ranks_per_node: 1", "ranks_per_node: 2", "0", marks=pytest.mark.slow),
    ],
)
def test_no_core_is_shared_whatever_was_granted(tmp_path, first, second, reserve):
    plan = plan_of(tmp_path, TWO % (first, second, reserve), SMALL)
    node = Node(packages=2, numa=1, cores=3, threads=2)
    subsets = [node.list(cores) for size in range(1, 7) for cores in itertools.combinations(range(6), size)]
    ranks = ranks_of(plan, scripts_of(plan))
    planned = {
        role.name: [{*one.mask} for one in role.plan.binding.placement.ranks] for role in plan.role_jobs.jobs
    }
    kept = set() if reserve == "none" else {int(reserve), int(reserve) + 6}
    check(node, bound(tmp_path, node, ranks, subsets), planned, kept)


@pytest.mark.slow
def test_three_roles_with_gpus_share_what_was_granted_of_a_node(tmp_path):
    plan = plan_of(tmp_path, BESIDE, SITE)
    node = Node(packages=2, numa=1, cores=8, threads=1)
    chosen = random.Random(5)
    grants = {node.list(chosen.sample(range(16), size)) for size in range(1, 16) for _ in range(6)}
    ranks = ranks_of(plan, scripts_of(plan))
    planned = {
        role.name: [{*one.mask} for one in role.plan.binding.placement.ranks] for role in plan.role_jobs.jobs
    }
    grants = [*sorted(grants), format_list(range(16))]
    check(node, bound(tmp_path, node, ranks, grants), planned)


def test_a_role_keeps_what_was_granted_of_its_planned_cores(tmp_path):
    plan = plan_of(tmp_path, TWO % ("ranks_per_node: 1", "ranks_per_node: 1", "none"), SMALL)
    node = Node(packages=2, numa=1, cores=3, threads=2)
    (found,) = bound(tmp_path, node, ranks_of(plan, scripts_of(plan)), [node.list(range(5))]).values()
    assert found == {"a": [{0, 1, 2, 6, 7, 8}], "b": [{3, 4, 9, 10}]}
