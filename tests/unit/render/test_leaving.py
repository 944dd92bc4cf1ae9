"""The part of a job's script that waits for what each node does when Slurm has asked the job to end."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "golden" / "slurm-srun-staged" / "job.sh"


def kept(tmp_path: Path, keeper: str, step: str = ":", most: int = 50) -> str:
    """What `kept` answers where `keeper` has started the step that waits; `step` runs in place of `most` pauses."""
    (tmp_path / "kept").mkdir()
    function = re.search(r"^kept\(\) \{.*?^\}$", SCRIPT.read_text(), re.MULTILINE | re.DOTALL)
    assert function, "no such function"
    script = f"""\
    run_dir=$1 paused=0
    sleep() {{ ((++paused < {most})) || {{ echo waits; exit; }}; {step}; }}
    {function[0]}
    {keeper}
    if kept; then echo all; else echo "not all, told $(cat "$run_dir/signalled" 2>/dev/null)"; fi
    kill -KILL $keeper 2>/dev/null
    true"""
    done = subprocess.run(
        ["bash", "-c", script, "x", str(tmp_path)], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout.strip()


DEAD = "true & keeper=$!; wait"
ALIVE = "command sleep 600 & keeper=$!"
BOTH = 'echo 0 >"$run_dir/kept/0"; echo {} >"$run_dir/kept/1"'


def test_a_step_that_is_gone_is_not_waited_for(tmp_path):
    assert kept(tmp_path, DEAD) == "not all, told"


@pytest.mark.parametrize(("code", "answer"), [("0", "all"), ("1", "not all, told")])
@pytest.mark.parametrize("keeper", [DEAD, ALIVE])
def test_what_each_node_has_said_counts(tmp_path, keeper, code, answer):
    said = BOTH.format(code)
    assert kept(tmp_path, f"mkdir -p $run_dir/kept; {keeper}; {said}") == answer


def test_nodes_that_take_their_time_are_waited_for(tmp_path):
    later = f'touch "$run_dir/kept/heard-0"; if ((paused == 40)); then {BOTH.format(0)}; fi'
    assert kept(tmp_path, ALIVE, later) == "all"


def test_a_step_that_slurm_asked_but_no_busy_node_has_heard_yet_is_not_asked_again(tmp_path):
    """`srun` ends a step at once that it is asked to end a second time."""
    later = f'if ((paused == 95)); then touch "$run_dir/kept/heard-1"; fi; if ((paused == 120)); then {BOTH.format(0)}; fi'
    assert kept(tmp_path, ALIVE, later, most=200) == "all"


def test_a_step_that_slurm_did_not_ask_is_asked(tmp_path):
    own = "(trap 'echo TERM >\"$run_dir/signalled\"; exit' TERM; while :; do command sleep 0.1; done) & keeper=$!"
    assert kept(tmp_path, own, "command sleep 0.02", most=900) == "not all, told TERM"
