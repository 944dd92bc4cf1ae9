"""Known values of the script's variables, which are substituted in the training command.

Many scripts pass numbers to their launcher by `RANKS=12` and `$((NODES * RANKS))`.
"""

from __future__ import annotations

import ast
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from dlrun.config.batch_script.shell import Command, names_used

_ASSIGN = re.compile(r"(?:export\s+|local\s+|declare\s+(?:-\w+\s+)*)?([A-Za-z_]\w*)=(.*)", re.DOTALL)
_NODES = re.compile(
    r"[`$(]*\s*(?:wc -l\s*<\s*\$\{?PBS_NODEFILE\}?|cat \$\{?PBS_NODEFILE\}?\s*\|.*wc -l)\s*[`)]*"
    r"|\$\{?(?:SLURM_NNODES|SLURM_JOB_NUM_NODES)\}?"
)
_ARITHMETIC = re.compile(r"\$\(\((.*?)\)\)|`expr ([^`]*)`")
_OPERATIONS: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv,
}  # fmt: skip


def known(commands: Iterable[Command], counts: Mapping[str, int]) -> dict[str, str]:
    """Name -> value of every variable assigned once to a value that can be evaluated; `counts` are those of the directives."""
    nodes = str(counts.get("nodes", 1))
    found = dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES", "NHOSTS"), nodes)
    for name, count in (("NSLOTS", "slots"), ("SLURM_NTASKS", "ranks"), ("SLURM_NTASKS_PER_NODE", "ranks_per_node"),
                        ("SLURM_CPUS_PER_TASK", "cpus_per_rank"), ("SLURM_GPUS_ON_NODE", "gpus_per_node"),
                        ("SLURM_GPUS_PER_NODE", "gpus_per_node")):  # fmt: skip
        if count in counts:
            found[name] = str(counts[count])
    if "ranks_per_node" in counts:
        found.setdefault("SLURM_NTASKS", str(int(nodes) * counts["ranks_per_node"]))
    seen: Counter[str] = Counter()
    # Whole commands: `CMD="python train.py --out $OUT"`, which the launch line runs.
    commands_of_text: dict[str, str] = {}
    for command in commands:
        match = None if command.block else _ASSIGN.fullmatch(command.text)
        if match is None:
            continue
        name, value = match[1], match[2].strip()
        seen[name] += 1
        if seen[name] > 1:
            found.pop(name, None)  # the value at the launch line is unknown
            continue
        resolved = nodes if _NODES.fullmatch(value) else expanded(_unquoted(value), found)
        if not re.search(r"[$`*?\[]", resolved) and not (value[:1] == "'" and "$" in value):
            found[name] = resolved
        elif not re.search(r"[`*?\[\"'(]", resolved) and value[:1] == '"':
            commands_of_text[name] = resolved
    reassigned = {name for name, times in seen.items() if times > 1}
    return found | {n: t for n, t in commands_of_text.items() if not reassigned & {n, *names_used(t)}}


def expanded(text: str, values: Mapping[str, str]) -> str:
    """Text with known variables substituted and arithmetic on known numbers evaluated."""
    text = re.sub(r"(?<!\\)\$(?:\{(\w+)\}|([A-Za-z_]\w*))", lambda m: values.get(m[1] or m[2], m[0]), text)
    return _ARITHMETIC.sub(lambda m: _number(m[1] or m[2].replace("\\*", "*"), values) or m[0], text)


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def _number(text: str, values: Mapping[str, str]) -> str | None:
    named = re.sub(r"[A-Za-z_]\w*", lambda m: values.get(m[0], m[0]), text)
    try:
        return str(_value(ast.parse(named.strip(), mode="eval").body))
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return None


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left), _value(node.right))
    raise ValueError("not a sum of numbers")
