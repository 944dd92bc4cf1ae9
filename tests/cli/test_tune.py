"""`dlrun tune` on this machine, for real: found, confirmed, killed, resumed, kept to its budget, written into the spec."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from contextlib import suppress
from itertools import pairwise

import pytest

from tests.cli.conftest import Dlrun, wait_for

SPEC = """\
name: toy  # mine
command: [bash, train.sh, "{{ workers }}"]
placement: {threads: 2}
"""
TRAIN = """\
echo "$1 $OMP_NUM_THREADS" >>ran
case $1 in 1) speed=100 ;; 2) speed=130 ;; *) speed=90 ;; esac
[[ $OMP_NUM_THREADS == 2 ]] || speed=$((speed * 2))
echo "throughput: $speed samples/s"
echo "throughput: $((speed + 1)) samples/s"
"""
ENDLESS = TRAIN + "sleep 600\n"
"""The same, until the trial is ended."""


@pytest.fixture
def place(dlrun) -> Dlrun:
    (dlrun.place / "train.sh").write_text(TRAIN)
    dlrun.spec(SPEC)
    return dlrun


WORDS = (
    "tune", "spec.yaml", "--only", "--try", "workers=1,2,3", "--try", "placement.threads=1", "--length", "1s", "--repeat", "2",
    "--budget", "1",
)  # fmt: skip


def test_the_best_combination_is_found_confirmed_and_written_into_the_spec(place):
    done = place(*WORDS, "--apply")
    assert "placement.threads=1 + workers=2: +1" in done.stdout, done.stdout + done.stderr
    assert "workers = 2 in the command (was 1)" in done.stdout
    text = (place.place / "spec.yaml").read_text()
    assert text.startswith(SPEC.partition("placement")[0])
    assert "# dlrun tune: +1" in text
    assert "\nplacement: {threads: 1}\n" in text
    shown = json.loads(place("tune", "--show", "toy-tuning", "--json").stdout)["tune"]
    assert shown["complete"]
    assert shown["verdict"]["sure"]
    assert shown["verdict"]["winner"]["sets"] == {"placement.threads": "1"}
    values = {one["candidate"]: one["value"] for one in shown["trials"]}
    assert values["as planned"] == pytest.approx(100, abs=2)
    assert values["workers=2"] == pytest.approx(130, abs=2)
    assert sum(one["candidate"] == "workers=3" for one in shown["trials"]) == 1  # it lost at once


@pytest.mark.slow
def test_it_goes_on_where_it_was_killed_and_leaves_no_process(place):
    train = place.place / "train.sh"
    train.write_text(ENDLESS)
    running = place.start(*WORDS)
    wait_for((place.place / "toy-tuning/trials.jsonl").exists)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    wait_for(lambda: not place.alive())  # the trial ends with the process that began it
    trials = place.place / "toy-tuning/trials.jsonl"
    before = trials.read_text().splitlines()
    with trials.open("a") as file:
        file.write('{"candidate": "cut by a k')
    train.write_text(TRAIN)
    done = place(*WORDS)
    assert "in the confirming runs" in done.stdout, done.stdout + done.stderr
    assert trials.read_text().splitlines()[: len(before)] == before
    assert not place.alive()


@pytest.mark.slow
def test_the_budget_is_kept(place):
    (place.place / "train.sh").write_text(ENDLESS)
    many = "workers=" + ",".join(map(str, range(1, 41)))
    done = place(*WORDS[:-1], "0.01", "--try", many)  # 36 s, for 41 trials of at least one
    # How far it comes depends on the machine.
    confirmed = "the rest of the budget is used to confirm the fastest candidate so far" in done.stderr
    assert confirmed or "is used up before all candidates were measured" in done.stderr
    assert "not tried, because the budget was used up: " in done.stdout
    used = json.loads(place("tune", "--show", "toy-tuning", "--json").stdout)["tune"]["node_hours"]
    assert 0 < used < 0.03


def test_a_training_without_throughput_is_named_with_its_logs(place):
    (place.place / "train.sh").write_text("exit 3\n")
    done = place(*WORDS, code=1)
    assert "could not be measured as planned: exit code 3" in done.stderr
    assert "toy-tuning/trials/001-as-planned/logs" in done.stderr


def test_nobody_is_asked_for_a_budget_where_there_is_no_terminal(place):
    done = place(*WORDS[:-2], code=2)
    assert "`--budget " in done.stderr
    assert not (place.place / "toy-tuning").exists()


def test_other_mistakes_are_named(place):
    assert "is not `NAME=VALUE,VALUE`" in place("tune", "spec.yaml", "--try", "workers", code=2).stderr
    place.spec(SPEC.replace("{{ workers }}", "1"))
    assert "there is nothing to try" in place("tune", "spec.yaml", "--only", code=2).stderr
    assert "has no trials" in place("tune", "--show", "nowhere", code=2).stderr
    place.spec(SPEC.replace("{{ workers }}", "{{ w }}") + "sweep: {grid: {w: [1, 2]}}\n")
    assert "the spec has a sweep" in place("tune", "spec.yaml", code=2).stderr


@pytest.mark.slow
def test_a_changed_spec_is_not_mixed_with_the_trials_of_another(place):
    place(*WORDS, "--repeat", "1", "--try", "workers=1")
    place.spec(SPEC + "# changed\n")
    assert "the spec has changed" in place(*WORDS, code=2).stderr


@pytest.mark.slow
def test_the_trials_have_the_site_and_the_settings_of_the_shell_that_began_them(place):
    """What the job itself runs (`--inside`) has neither DLRUN_SITE nor DLRUN_SET_*."""
    spec = SPEC.replace("placement: {threads: 2}\n", "")
    (place.place / "spec.yaml").write_text(spec)
    (place.place / "mine.yaml").write_text("name: mine\nscheduler: {type: local}\nlauncher: {name: local}\n")
    shell = {"DLRUN_SITE": "mine.yaml", "DLRUN_SET_PLACEMENT__THREADS": "2"}
    running = place.start(*WORDS, env=shell)
    wait_for((place.place / "toy-tuning/trials.jsonl").exists)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    place("tune", "toy-tuning", "--inside")
    plans = list((place.place / "toy-tuning/trials").glob("*/plan.json"))
    assert {json.loads(plan.read_text())["site"] for plan in plans} == {"mine"}
    shown = json.loads(place("tune", "--show", "toy-tuning", "--json").stdout)["tune"]
    assert {one["value"] for one in shown["trials"] if one["candidate"] == "as planned"} <= {
        100.0,
        100.5,
        101.0,
    }
    assert shown["complete"]


@pytest.mark.slow
def test_on_a_terminal_the_budget_is_asked_for(place):
    """With an estimate; what is typed is what the trials may take."""
    master, slave = pty.openpty()
    shown, options = "", {"stdin": slave, "stdout": subprocess.PIPE, "stderr": slave}
    with place.start(*WORDS[:-2], env={"TERM": "xterm", "COLUMNS": "100"}, **options) as running:
        os.close(slave)
        until, answered = time.monotonic() + 600, False
        while running.poll() is None and time.monotonic() < until:
            if select.select([master], [], [], 0.2)[0]:
                with suppress(OSError):
                    shown += os.read(master, 4096).decode()
            if not answered and "budget in node-hours [" in shown:
                os.write(master, b"0.5\n")
                answered = True
        running.kill()
    os.close(master)
    assert running.returncode == 0, shown
    assert re.search(
        r"The trials need about 0\.1\d node-hours \(1 node\); budget in node-hours \[0\.1\d+\]", shown
    )
    assert json.loads((place.place / "toy-tuning/tune.json").read_text())["budget"] == 0.5
    # The trial that runs has a status line below those that have ended, erased before the next of them.
    assert re.search(r"1: as planned: running for [\dms ]+; \d+% of 0\.5 node-hours used", shown), shown
    assert ": placement.threads=1 + workers=2: running for " in shown
    assert re.search(r"\x1b\[2K1: as planned: 10[01](\.5)? samples/s", shown), shown


def test_trials_that_share_a_node_run_at_the_same_time_on_places_of_their_own(place):
    """One pool with two places: each trial is a point of its own job, and has half of the node."""
    train = TRAIN.replace("echo ", 'echo "$DLRUN_PLACE $(date +%s%N)" >>spans/$$; echo ', 1)
    (place.place / "train.sh").write_text(train + 'sleep 2; echo "$DLRUN_PLACE $(date +%s%N)" >>spans/$$\n')
    (place.place / "spans").mkdir()
    place.spec(SPEC.replace("placement: {threads: 2}", "placement: {threads: 2, bind: none}"))
    done = place(*WORDS, "--pool", "1", "--set", "sweep.points_per_node=2", "--length", "60s")
    assert "placement.threads=1 + workers=2: +1" in done.stdout, done.stdout + done.stderr
    spans = [path.read_text().split() for path in (place.place / "spans").iterdir()]
    held = {number: sorted((int(a), int(b)) for p, a, _, b in spans if p == number) for number in "01"}
    assert min(map(len, held.values())) > 2
    for one in held.values():
        assert all(first[1] <= second[0] for first, second in pairwise(one)), "one at a time on a place"
    assert any(a < end and begin < b for a, b in held["0"] for begin, end in held["1"])
    shown = json.loads(place("tune", "--show", "toy-tuning", "--json").stdout)["tune"]
    assert {one["place"] for one in shown["trials"]} == {"0 0", "0 1"}
    # A trial costs its part of the node.
    seconds = sum(one["seconds"] for one in shown["trials"])
    assert shown["node_hours"] == pytest.approx(seconds / 2 / 3600)
