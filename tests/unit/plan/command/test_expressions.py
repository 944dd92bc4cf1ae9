"""`{{ }}` in a spec: arithmetic and nothing else, whatever somebody writes into it."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from dlrun.model.text import Shell, Text
from dlrun.plan.command.expressions import ExpressionError, evaluate, names, substitute

VALUES = {
    "nodes": 4,
    "global_batch": 512,
    "name": "resnet",
    "lr": "0.1",
    "steps": "7",
    "rank": Shell("$DLRUN_RANK"),
    "path": Text.of(Shell("$TMPDIR"), "/data"),
    "data": {"imagenet": Text.of("/scratch/imagenet"), "fast": Text.of(Shell("$TMPDIR"), "/x")},
}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("nodes", 4),
        ("1 + 2 * 3 - 4", 3),
        ("7 // 2", 3),
        ("7 % 4", 3),
        ("7 / 2", 3.5),
        ("-nodes", -4),
        ("+nodes", 4),
        ("(1 + 2) * nodes", 12),
        ("0.1 * global_batch / 256", 0.2),
        ("max(1, nodes // 8)", 1),
        ("min(nodes, 2, 3)", 2),
        ("round(2.6)", 3),
        ("int(7 / 2)", 3),
        ("float(nodes)", 4.0),
        ("str(nodes)", "4"),
        ("'x'", "x"),
        ("nodes > 2", True),
        ("nodes == 4", True),
        ("nodes != 4", False),
        ("'big' if nodes >= 4 else 'small'", "big"),
        ("lr", "0.1"),
        ("lr > 0.05", True),
        ("lr == 0.1", True),
        ("max(steps, 3)", 7),
        ("name == 'resnet'", True),
        ("data.imagenet == '/scratch/imagenet'", True),
        ("lr * 10", 1.0),
        ("steps * 2", 14),
        ("  nodes  ", 4),
    ],
)
def test_arithmetic(expression, value):
    result = evaluate(expression, VALUES)
    assert result == pytest.approx(value) if isinstance(value, float) else result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("plain", ("plain",)),
        ("{{ nodes }}", ("4",)),
        ("a{{nodes}}b{{ name }}c", ("a4bresnetc",)),
        ("{{ 1 / 4 }}", ("0.25",)),
        ("{{ 0.15 * global_batch / 64 }}", ("1.2",)),
        ("{{ nodes > 2 }}", ("true",)),
        ("{{ rank }}", (Shell("$DLRUN_RANK"),)),
        ("out-{{ rank }}.txt", ("out-", Shell("$DLRUN_RANK"), ".txt")),
        ("{{ data.imagenet }}/train", ("/scratch/imagenet/train",)),
        ("{{ data.fast }}", (Shell("$TMPDIR"), "/x")),
        ("}} {", ("}} {",)),
        ("{ {nodes} }", ("{ {nodes} }",)),
        ("$(id) {{ nodes }}", ("$(id) 4",)),
        ("", ()),
    ],
)
def test_substitution(text, pieces):
    assert substitute(text, VALUES).parts == pieces


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("node", "unknown name `node`"),
        ("data.imagnet", "unknown name `imagnet`"),
        ("rank + 1", "known only on the node"),
        ("-path", "known only on the node"),
        ("name * 2", "uses a text in arithmetic: `resnet`"),
        ("nodes +", "is not an expression"),
        ("", "is not an expression"),
        ("nodes\x00", "is not an expression"),
        ("1 / 0", "divides by zero"),
        ("1 % 0", "divides by zero"),
        ("10 ** 3", "is not allowed in an expression"),
        ("9 ** 9 ** 9 ** 9", "is not allowed in an expression"),
        ("1 << 100", "is not allowed in an expression"),
        ("10**18 + 1", "is not allowed"),
        ("1000000000 * 1000000000 * 10", "not a number up to"),
        ("1e308 * 10", "not a number up to"),
        ("'a' * 1000000000", "uses a text in arithmetic:"),
        ("str(nodes) + 'x'", "uses a text in arithmetic:"),
        ("__import__('os').system('id')", "is not allowed in an expression"),
        ("nodes.__class__", "is not allowed in an expression"),
        ("data.__class__", "unknown name `__class__`"),
        ("name.format(nodes)", "is not allowed in an expression"),
        ("[x for x in (1, 2)]", "is not allowed in an expression"),
        ("lambda: 1", "is not allowed in an expression"),
        ("(x := 5)", "is not allowed in an expression"),
        ("f'{nodes}'", "is not allowed in an expression"),
        ("max(*data)", "is not allowed in an expression"),
        ("max(1, key=str)", "is not allowed in an expression"),
        ("print(1)", "is not allowed in an expression"),
        ("b'a'", "is not allowed in an expression"),
        ("None", "is not allowed in an expression"),
        ("...", "is not allowed in an expression"),
        ("1j", "is not allowed in an expression"),
        ("not nodes", "is not allowed in an expression"),
        ("1 < nodes < 5", "is not allowed in an expression"),
        ("int('x')", "uses a text in arithmetic: `x`"),
        ("max()", "max"),
        ("int(rank)", "known only on the node"),
        ("str(rank)", "known only on the node"),
        ("max(rank, 1)", "known only on the node"),
        ("rank == 0", "known only on the node"),
        ("1 if rank else 2", "known only on the node"),
        ("data == 1", "uses a group of values in arithmetic"),
        ("data + 1", "uses a group of values in arithmetic"),
        ("name > 1", "uses a text in arithmetic: `resnet`"),
        ("1 " * 600, "longer than 1000 characters"),
        ("(" * 400 + "1" + ")" * 400, "is not an expression"),
        ("float('nan')", "not a number up to"),
        ("float('inf')", "not a number up to"),
    ],
)
def test_refusals(expression, message):
    begun = time.monotonic()
    with pytest.raises(ExpressionError) as refused:
        evaluate(expression, VALUES)
    assert message in f"{refused.value} {refused.value.help}"
    assert time.monotonic() - begun < 60  # nothing was computed that takes its time


def test_an_unknown_name_has_the_nearest_and_the_list():
    with pytest.raises(ExpressionError) as refused:
        evaluate("2 * global_bach", VALUES)
    assert refused.value.name == "global_bach"
    assert refused.value.help.startswith("the nearest is `global_batch`; names here: data, global_batch, lr")


def test_a_group_is_no_value():
    with pytest.raises(ExpressionError, match="is a group of values") as refused:
        substitute("{{ data }}", VALUES)
    assert refused.value.help == "its values: data.imagenet, data.fast"


def test_an_open_expression_is_named():
    with pytest.raises(ExpressionError, match="without"):
        substitute("a {{ nodes", VALUES)


def test_names_used():
    assert names("{{ data.imagenet }} {{ nodes * lr }} {{ ( }}") == {"data.imagenet", "data", "nodes", "lr"}


@given(st.text(max_size=60))
def test_no_text_makes_a_traceback(text):
    for candidate in (text, f"{{{{ {text} }}}}"):
        with suppress(ExpressionError):
            substitute(candidate, VALUES)


operators = st.sampled_from("+-*/%()<>=!.,'[]{}:~&|^@ ")
words = st.sampled_from(
    ["nodes", "rank", "data", "max", "int", "str", "if", "else", "1", "1e9", "name", "0", "lambda"]
)


@given(st.lists(operators | words, max_size=25).map("".join))
def test_no_mixture_of_its_own_words_makes_a_traceback(text):
    with suppress(ExpressionError):
        evaluate(text, VALUES)
