"""What the samplers of nodes wrote of a job, damaged: shown by `usage`, `top` and `report`, as text, CSV, JSON and HTML."""

from __future__ import annotations

import io
import json
import random
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from dlrun.jobs.queue import status
from dlrun.jobs.records import jobs
from dlrun.model.json_codec import to_plain
from dlrun.node.usage import cgroup, gpus, machine, ranks
from dlrun.render.script import plan_json
from dlrun.terminal.printing import emit
from dlrun.usage import command, job as of, tables as shown
from dlrun.usage.live import Watch
from dlrun.usage.report_content import report_of
from dlrun.usage.report_page import page
from dlrun.usage.top_screen import lines
from tests.fuzz import damage
from tests.making import LOCAL, make_own, plan_of

RECORDS: dict[str, Any] = {
    "submission.json": {"version": 1, "scheduler": "local", "job_id": "4242.99", "site": "s", "name": "a", "submitted": 1.0},
    "state.json": {"version": 1, "state": "ended", "job_id": "4242.99", "host": "h", "started": 2.0, "launched": 3,
                   "ended": 400.0, "exit_code": 0, "restarts": 0},
}  # fmt: skip
_COLUMNS = {"rank": ranks.COLUMNS, "node": machine.COLUMNS, "job": cgroup.COLUMNS, "gpu": gpus.COLUMNS}
_TOUCHED = 6
"""Lines of a recording that are damaged: with more of them none is left that is used."""


def recording(node: int, names: list[str]) -> list[dict[str, Any]]:
    """The lines of one node's file: two ranks with a GPU each, ten samples."""
    described = {"name": "H100", "uuid": "GPU-1", "memory": 80e9, "clock": 1980, "mig": False}
    found: list[dict[str, Any]] = [
        {"kind": "start", "version": 1, "id": "7.1", "run": "7.0", "node": f"n{node}", "node_rank": node, "time": 3.0 + node,
         "cores": "0-7", "memory": 64 << 30, "gpus": [described] * len(names), "columns": _COLUMNS},
    ]  # fmt: skip
    found += [
        {"kind": "rank", "id": "7.1", "rank": name, "pid": 9, "cores": f"{4 * i}-{4 * i + 3}", "memory_nodes": "0"}
        for i, name in enumerate(names)
    ]  # fmt: skip
    for t in range(0, 300, 30):
        found.append(
            {
                "kind": "sample" if t < 270 else "end", "id": "7.1", "t": float(t), "own": [0.5, 1 << 20],
                "missing": ["gpus: none"],
                "node": [1.5 * t] * len(machine.COLUMNS),
                "ranks": {name: [i + 2 * t] * len(ranks.COLUMNS) for i, name in enumerate(names)},
                "network": {"lo": [0, 0, None], "eth0": [1e8 * t, 7 * t, 10000], "mlx5_0:1": [t, t, 100000]},
                "job": [3.5 * t, 4 << 30, 5 << 30, 8 << 30],
                "gpus": [[30, 5, 1 << 30, 250, 1500, 60, ["heat"], 0]] * len(names), "on": [[name] for name in names],
            }
        )  # fmt: skip
    return found


@cache
def _plan() -> str:
    spec = "name: a\ncommand: [x]\nresources: {ranks_per_node: 4, walltime: 2h, memory_per_node: 8G}\n"
    with tempfile.TemporaryDirectory() as name:
        return plan_json(plan_of(Path(name), spec, LOCAL))


def _damaged(node: int, chance: random.Random) -> str:
    found = recording(node, [f"rank-{2 * node}", f"rank-{2 * node + 1}"])
    for _ in range(chance.randint(1, _TOUCHED)):
        at = chance.randrange(len(found))
        changed = damage.value(found[at], chance)
        found[at] = changed if isinstance(changed, dict) else found[at]
    text = "".join(json.dumps(one) + "\n" for one in found)
    return damage.text(text, chance) if chance.random() < 0.3 else text


def case(place: Path, chance: random.Random) -> None:
    """A job of two nodes that were measured, in every form in which it is shown."""
    directory = place / "jobs" / "a"
    (directory / "usage").mkdir(parents=True)
    (directory / "logs").mkdir()
    (directory / "logs" / "rank-0.log").write_text("throughput: 12.5 samples/s\n")
    make_own(directory)
    (directory / "plan.json").write_text(_plan())
    for name, good in RECORDS.items():
        (directory / name).write_text(json.dumps(good))
    for node in range(2):
        text = _damaged(node, chance) if node == 0 or chance.random() < 0.5 else _whole(node)
        (directory / "usage" / f"n{node}.jsonl").write_bytes(text.encode("utf-8", "replace"))
    with redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")), redirect_stderr(io.StringIO()):
        _show(jobs.find("a", place / "jobs"))


def _whole(node: int) -> str:
    names = [f"rank-{2 * node}", f"rank-{2 * node + 1}"]
    return "".join(json.dumps(one) + "\n" for one in recording(node, names))


def _show(job: jobs.Job) -> None:
    plan = job.plan()
    runs = of.of_job(job, plan)
    for run in runs:
        shown.show_run(job, plan, run, every_rank=True)
    shown.show_runs(plan, runs)
    shown.show_study([("1 node", "1x1-1", run) for run in runs])
    command._write_csv([("", run) for run in runs])
    emit("usage", [to_plain(run) for run in runs])
    live = Watch(job, None).read()
    assert list(lines(live))
    emit("top", to_plain(live), one_line=True)
    html = page(report_of(job, status.of([job])[job.directory], ())).encode("utf-8").decode()
    _Tags().feed(html)


class _Tags(HTMLParser):
    """Fails for a tag that pages do not have: it came from what they show."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "img", "iframe", "a", "b"), tag
