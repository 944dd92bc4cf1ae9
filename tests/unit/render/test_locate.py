"""A process's node, local rank and number of local ranks are those that its launcher tells, whatever the plan has."""

from __future__ import annotations

import itertools
import os
import subprocess

import pytest

from dlrun.resources import directory

SCRIPT = """
set -u
source "$LIB/rank.sh"
source "$LIB/locate.sh"
while read -r DLRUN_RANK DLRUN_LOCAL_RANK DLRUN_WORLD_SIZE DLRUN_HOST size node per_node; do
  _dlrun_misplaced=
  _dlrun_locate "${size#-}" "${node#-}" "$per_node"
  echo "$DLRUN_LOCAL_SIZE|$DLRUN_NODE_RANK|$_dlrun_misplaced"
done
"""


def located(lines, hosts):
    """Size, node and misplacement of each process."""
    done = subprocess.run(
        ["bash", "-c", SCRIPT],
        input="".join(f"{line}\n" for line in lines),
        env={
            "PATH": os.environ["PATH"],
            "LIB": str(directory("templates") / "lib"),
            "DLRUN_HOSTS": str(hosts),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert not done.stderr
    return [tuple(line.split("|")) for line in done.stdout.splitlines()]


def planned(count, per_node):
    """The layout of a plan: each node is filled before the next."""
    return [min(per_node, count - start) for start in range(0, count, per_node)]


def folded(counts):
    """Slurm's list of the numbers of tasks, as in `4(x2),2`."""
    groups = [(number, len(list(same))) for number, same in itertools.groupby(counts)]
    return ",".join(f"{number}(x{times})" if times > 1 else str(number) for number, times in groups)


def layouts():
    """(planned ranks per node, ranks on each node as started) of three nodes."""
    for per_node in range(1, 5):
        for counts in itertools.product(range(per_node + 2), repeat=3):
            if 2 * per_node < sum(counts) <= 3 * per_node:
                yield per_node, counts


@pytest.mark.parametrize("tells", ["counts and node", "size and node", "size alone"])
def test_where_a_process_is_comes_from_its_launcher(tmp_path, tells):
    hosts = tmp_path / "hosts"
    hosts.write_text("n1.example.org\nn2.example.org\nn3.example.org\n")
    lines, expected = [], []
    for per_node, counts in layouts():
        count, plan = sum(counts), planned(sum(counts), per_node)
        rank = 0
        for node, size in enumerate(counts):
            for local in range(size):
                told = folded(counts) if tells.startswith("counts") else size
                at = "-" if tells.endswith("alone") else node
                lines.append(f"{rank} {local} {count} n{node + 1} {told} {at} {per_node}")
                where = divmod(rank, per_node)
                # Without the node's number, a node that looks as planned counts as the one that the plan has it on.
                alike = tells.endswith("alone") and (where[1], plan[where[0]]) == (local, size)
                index = where[0] if alike else node
                as_planned = where == (index, local) and plan[where[0]] == size
                text = f"is local rank {local} of {size} on node {index}, not {where[1]} of {plan[where[0]]} on node {where[0]}"
                expected.append((str(size), str(index), "" if as_planned else text))
                rank += 1
    assert len(lines) > 200
    assert located(lines, hosts) == expected


def test_without_a_word_of_the_launcher_the_plan_counts(tmp_path):
    lines = ["9 1 10 n3 - - 4", "3 3 10 n1 - - 4"]
    assert located(lines, tmp_path / "not-read") == [("2", "2", ""), ("4", "0", "")]
