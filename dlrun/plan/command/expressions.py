"""`{{ }}` in a spec: arithmetic over named plan values, evaluated without evaluating anything else.

Values known only on the node stay shell expansions: they are valid in text, not in arithmetic.
"""

from __future__ import annotations

import ast
import operator
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from dlrun.model.nearest import nearest
from dlrun.model.text import NodeVariables, Shell, Text, digits

Value: TypeAlias = int | float | str | bool | Shell | Text | Mapping[str, Any]

# Bounds keep an expression of somebody else's spec from taking minutes or gigabytes.
_LIMIT = 10**18
_LONGEST = 1000
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _round(number: float, digits: int = 0) -> float:
    """`round` limited to the digits of a float: Python would compute with huge powers of ten for minutes."""
    if not -20 <= digits <= 20:
        raise OverflowError("`round` takes -20 to 20 digits")
    return round(number, digits) if digits else round(number)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "round": _round,
    "int": int,
    "float": float,
    "str": str,
}
_OTHER_NAMES = {
    "gpus_per_node": ("num_gpus", "ngpus", "n_gpus", "gpus"), "nodes": ("nnodes", "num_nodes", "n_nodes"),
    "world_size": ("ntasks", "nprocs", "size", "ranks", "num_processes", "num_ranks"), "rank": ("global_rank", "process_id"),
    "batch_per_rank": ("batch", "batch_size", "micro_batch", "micro_batch_size"), "host": ("hostname", "node"),
    "ranks_per_node": ("nproc_per_node", "local_world_size", "local_size"), "threads": ("omp_num_threads", "num_threads", "cpus"),
    "global_batch": ("global_batch_size", "total_batch", "batch_total"), "run_dir": ("output_dir", "out", "run"),
    "job_dir": ("jobdir", "workdir"),
}  # fmt: skip
"""Value of the plan -> names that other programs use for it."""
_ALLOWED = f"allowed are + - * / // %, comparisons, `a if b else c` and {', '.join(_FUNCTIONS)}"


class ExpressionError(ValueError):
    """An expression that cannot be evaluated; `name` is the unknown name if that is the cause, else empty."""

    def __init__(self, message: str, *, help: str = "", name: str = "") -> None:
        super().__init__(message)
        self.help = help
        self.name = name


def substitute(text: str, values: Mapping[str, Value], *, quoted: bool = False) -> Text:
    """The text with each `{{ expression }}` replaced by its value; raises ExpressionError.

    `quoted`: the text is shell text, and each value is one word of it.
    """
    pieces: list[str | Shell | Text] = []
    end = 0
    for start, stop in _spans(text):
        source = text[start + 2 : stop - 2]
        value = _show(evaluate(source, values), source)
        pieces += [text[end:start], word(value, quotes_open(text[:start])) if quoted else value]
        end = stop
    rest = text[end:]
    if "{{" in rest:
        raise ExpressionError(
            f"`{{{{` without `}}}}` in `{_short(text)}`", help="close the expression with `}}`"
        )
    return Text.of(*pieces, rest)


def names(text: str) -> frozenset[str]:
    """The names used by a text's expressions, dotted names as a whole; expressions that cannot be parsed have none."""
    used: set[str] = set()
    for start, stop in _spans(text):
        source = text[start + 2 : stop - 2].strip()
        try:
            tree = ast.parse(source if len(source) <= _LONGEST else "", mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        used |= {ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Name | ast.Attribute)}
    return frozenset(used)


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """(begin, end) of each `{{ expression }}`."""
    end = 0
    while (start := text.find("{{", end)) >= 0 and (stop := text.find("}}", start + 2)) >= 0:
        end = stop + 2
        yield start, end


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"


def outside(text: str) -> str:
    """The text without its expressions."""
    kept, end = [], 0
    for start, stop in _spans(text):
        kept.append(text[end:start])
        end = stop
    return "".join([*kept, text[end:]])


def evaluate(expression: str, values: Mapping[str, Value]) -> Value:
    """The value of one expression; raises ExpressionError."""
    source = expression.strip()
    if len(source) > _LONGEST:
        raise ExpressionError(
            "an expression longer than 1000 characters", help="compute it in the training script"
        )
    try:
        tree = ast.parse(source, mode="eval")
        result: Value = _walk(tree.body, values, source)
    except ExpressionError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(
            f"`{source}` is not an expression", help="write arithmetic such as `0.1 * global_batch`"
        ) from None
    except ZeroDivisionError:
        raise ExpressionError(f"`{source}` divides by zero", help="the divisor is zero in this job") from None
    except (TypeError, OverflowError) as error:
        raise ExpressionError(f"`{source}`: {error}", help=_ALLOWED) from None
    if isinstance(result, int | float) and not abs(result) <= _LIMIT:  # NaN is not either
        raise ExpressionError(f"`{source}` is not a number up to 10¹⁸", help=_ALLOWED)
    return result


def _walk(node: ast.expr, values: Mapping[str, Value], source: str) -> Any:
    match node:
        case ast.Constant(value=int() | float() | str() as value):
            return value
        case ast.Name(id=name):
            return _lookup(name, values, source)
        case ast.Attribute(value=inner, attr=name):
            holder = _walk(inner, values, source)
            if isinstance(holder, Mapping):
                return _lookup(name, holder, source)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_number(_walk(operand, values, source), source))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            a, b = (_number(_walk(n, values, source), source) for n in (left, right))
            return _OPERATORS[type(op)](a, b)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
            a, b = (_known(_walk(n, values, source), source) for n in (left, right))
            # Parameters of a sweep are texts: `lr > 0.1` has to compare numbers.
            if isinstance(a, str) != isinstance(b, str):
                a, b = _number(a, source), _number(b, source)
            return _OPERATORS[type(op)](a, b)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _walk(body if _known(_walk(test, values, source), source) else orelse, values, source)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            convert = _known if name == "str" else _number
            return _FUNCTIONS[name](*(convert(_walk(a, values, source), source) for a in args))
        case ast.BinOp(op=ast.BitOr(), right=ast.Name(id=name) | ast.Call(func=ast.Name(id=name))):
            way_out = f"write `{name}(…)` around the value" if name in _FUNCTIONS else _ALLOWED
            raise ExpressionError(
                f"`| {name}` is a filter of Jinja, which an expression does not have", help=way_out
            )
        case _:
            pass
    raise ExpressionError(
        f"`{source}` is not allowed in an expression",
        help=_ALLOWED,
    )


def _lookup(name: str, values: Mapping[str, Value], source: str) -> Value:
    if name in values:
        return values[name]
    if isinstance(values, NodeVariables):
        raise ExpressionError(
            f"`{source}` would show a secret to everybody on the node",
            help=f"the program reads `{name}` from its environment: leave the argument out",
        )
    near = next(
        (own for own, others in _OTHER_NAMES.items() if name.lower() in others and own in values), None
    ) or nearest(name, values)
    hint = f"the nearest is `{near}`; " if near else ""
    known = ", ".join(sorted(values)) or "none"
    raise ExpressionError(
        f"`{source}` uses an unknown name `{name}`", help=f"{hint}names here: {known}", name=name
    )


def _known(value: Any, source: str) -> Any:
    """A value usable in arithmetic; raises ExpressionError for a value of the node or a group of values."""
    if isinstance(value, Text) and value.literal is not None:
        return value.literal
    if isinstance(value, Shell | Text):
        raise ExpressionError(
            f"`{source}` uses a value in arithmetic that is known only on the node",
            help="such a value can be used in text, not in arithmetic; under `run:` bash computes with it: `$((RANK % 2))`",
        )
    if isinstance(value, Mapping):
        raise ExpressionError(f"`{source}` uses a group of values in arithmetic", help=_ALLOWED)
    return value


def _number(value: Any, source: str) -> Any:
    value = _known(value, source)
    if isinstance(value, str):
        try:
            return float(value) if not digits(value) else int(value)
        except ValueError:
            raise ExpressionError(f"`{source}` uses a text in arithmetic: `{value}`", help=_ALLOWED) from None
    return value


def _show(value: Value, source: str) -> str | Shell | Text:
    if isinstance(value, Shell | Text | str):
        return value
    if isinstance(value, Mapping):
        known = ", ".join(f"{source.strip()}.{k}" for k in value) or "none"
        raise ExpressionError(
            f"`{source.strip()}` is a group of values, not one", help=f"its values: {known}"
        )
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


# Quoting of values in a user's shell text (`run:`), so that each remains one word.


def quotes_open(text: str) -> str:
    """The quote character open at the end of a shell text: `'`, `"` or empty."""
    quote, escaped = "", False
    for letter in text:
        if escaped:
            escaped = False
        elif letter == "\\" and quote != "'":
            escaped = True
        elif letter in "'\"" and quote in {"", letter}:
            quote = "" if quote else letter
    return quote


def word(value: str | Shell | Text, quote: str) -> str:
    """A value as shell text inside the open quote `quote`.

    Values known only on the node are exported variables, expanded by the shell that reads the text.
    """
    if isinstance(value, Text):
        return "".join(word(part, quote) for part in value.parts) or ("" if quote else "''")
    if isinstance(value, Shell):
        return {"": f'"{value.code}"', '"': value.code, "'": f"'\"{value.code}\"'"}[quote]
    if quote == "'":
        return value.replace("'", "'\\''")
    return re.sub(r'([\\"$`])', r"\\\1", value) if quote else shlex.quote(value)
