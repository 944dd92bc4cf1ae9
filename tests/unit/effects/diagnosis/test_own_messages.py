"""Every message of dlrun's own programs has a cause and a next step; the table has no message that nobody prints."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from dlrun.effects.diagnosis import own_messages
from dlrun.effects.diagnosis.own_messages import JOB, NODE, PASSING
from dlrun.effects.diagnosis.why import answer
from dlrun.effects.records.jobs import Job
from dlrun.model.job import JobStatus, State
from dlrun.node.common import errors

ROOT = Path(__file__).parents[4]
ERRORS = {
    name
    for name, thing in vars(errors).items()
    if isinstance(thing, type) and issubclass(thing, errors.NodeError) and thing is not errors.Interrupted
}
SAYS = re.compile(r"""\b(?:dlrun_say|_dlrun_give_up|_dlrun_note|echo|printf)\s+("(?:[^"\\]|\\.)*"|'[^']*')""")
"""What prints a line in bash; of `echo` and `printf` only lines that begin with `dlrun: ` are dlrun's."""
EXPANSION = re.compile(r"\$\(\((?:[^()]|\([^()]*\))*\)\)|\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|\$\w+|\$[*@#]")
WRAPPERS = {"{}", "rank {}: {}"}
"""The messages of functions that print what they are given, which is found where they are called."""


def in_bash() -> dict[str, str]:
    """Every message of the templates and their library, with the file that has it."""
    found = {}
    for path in sorted((ROOT / "templates").rglob("*.*")):
        for match in SAYS.finditer(path.read_text("utf-8")):
            caller, text = match[0].split()[0], match[1][1:-1]
            if match[1][0] == '"':
                text = re.sub(r"\\(.)", r"\1", EXPANSION.sub("{}", text))
            text = re.sub(r"\{\{.*?\}\}|%s", "{}", text).removesuffix("\\n")
            if caller in ("echo", "printf"):
                if not text.startswith("dlrun: "):
                    continue
                text = text.removeprefix("dlrun: ")
            found[f"rank {{}}: {text}" if caller == "_dlrun_note" else text] = path.name
    return {text: name for text, name in found.items() if text not in WRAPPERS}


def texts(node: ast.expr, function: ast.AST) -> list[str]:
    """The texts that an expression may have, `{}` in place of what is not known."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Call(func=ast.Attribute(value=value, attr="format")):
            return texts(value, function)
        case ast.BinOp(left=left, right=right):
            return [a + b for a in texts(left, function) for b in texts(right, function) or ["{}"]]
        case ast.IfExp(body=body, orelse=orelse):
            return texts(body, function) + texts(orelse, function)
        case ast.Name(id=name):
            return [
                text
                for one in ast.walk(function)
                if isinstance(one, ast.Assign)
                and any(isinstance(t, ast.Name) and t.id == name for t in one.targets)
                for text in texts(one.value, function)
            ]
    return []


def in_node() -> dict[str, str]:
    """Every message of an error of the node programs, with the file that has it."""
    found = {}
    for path in sorted((ROOT / "dlrun" / "node").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for function in (
            one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        ):
            for call in (one for one in ast.walk(function) if isinstance(one, ast.Call) and one.args):
                name = (
                    call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                )
                if name in ERRORS:
                    for text in texts(call.args[0], function):
                        found[re.sub(r"\{:[^}]*\}", "{}", text)] = path.name
    return found


def test_each_message_of_a_job_is_in_the_table():
    """A message of the table may be one that is printed with more of it known, such as which command failed."""
    said = in_bash()
    known = {message for own in JOB.values() for message in own.messages} | set(PASSING)
    assert {text: name for text, name in said.items() if text not in known} == {}
    printed = [re.compile(".*".join(re.escape(part) for part in text.split("{}"))) for text in said]
    assert [message for message in known if not any(one.fullmatch(message) for one in printed)] == []
    assert len(said) > 30


def test_each_error_of_a_node_program_is_in_the_table():
    said = in_node()
    known = {message for own in NODE.values() for message in own.messages}
    assert {text: name for text, name in said.items() if text not in known} == {}
    assert known - set(said) == set()
    assert len(said) > 60


def run_of(place: Path, log: str, text: str) -> JobStatus:
    (place / "logs").mkdir()
    (place / "logs" / log).write_text(text)
    (place / "logs" / "job.log").touch()
    (place / "state.json").write_text(json.dumps({"state": "ended", "exit_code": 1}))
    return JobStatus(job_id="7", state=State.FAILED, exit_code=1)


def job_of(place: Path) -> Job:
    return Job(directory=place, name="x", site="s", scheduler="slurm", job_id="7", submitted=None, array=None)


def filled(message: str) -> str:
    return message.replace("{}", "17")


@pytest.mark.parametrize(
    ("message", "cause"),
    [(message, cause) for cause, own in JOB.items() for message in own.messages],
)
def test_why_knows_what_ends_a_job(message, cause, tmp_path):
    text = filled(message)
    ends = "dlrun: job 7 ended with exit code 1\n"
    status = run_of(tmp_path, "job.log", f"dlrun: {text}\n{ends}")
    found = answer(job_of(tmp_path), status, tmp_path)
    assert found.cause == cause
    assert text in found.means
    assert found.next == JOB[cause].next.replace("JOB", tmp_path.name)


@pytest.mark.parametrize(
    ("message", "cause"),
    [(message, cause) for cause, own in NODE.items() for message in own.messages],
)
def test_why_knows_what_a_node_program_reports(message, cause, tmp_path):
    text = filled(message)
    status = run_of(tmp_path, "stage-1.log", f"error: {text}\n  = help: run again\n")
    found = answer(job_of(tmp_path), status, tmp_path)
    both = {name for name, own in NODE.items() if message in own.messages}
    assert found.cause in both
    assert text in found.means


@pytest.mark.parametrize("message", PASSING)
def test_what_only_reports_progress_is_no_cause(message):
    assert own_messages.reports_progress(filled(message))
