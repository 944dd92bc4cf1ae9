"""How problems look: caret, long and wide lines, colour, one line, JSON; and nothing a terminal could obey."""

from __future__ import annotations

import json

from dlrun.model.origin import Layer, Origin
from dlrun.model.problem import InvalidFile, Problem
from dlrun.terminal.diagnostics import report, report_problems


def at(line=0, column=0, name="spec.yaml"):
    return Origin(layer=Layer.SPEC, name=name, line=line, column=column)


def caret(text):
    """The shown source line, and what of it is underlined."""
    lines = text.splitlines()
    index = next(i for i, line in enumerate(lines) if set(line.partition("|")[2].strip()) == {"^"})
    first, end = lines[index].index("^"), lines[index].rindex("^") + 1
    return lines[index - 1].partition("| ")[2], lines[index - 1][first:end]


def test_the_report_of_the_design():
    problem = Problem(
        message="unknown key `gpus_per_nodes`",
        origin=at(5, 3),
        width=14,
        help="the nearest key is `gpus_per_node`; `dlrun keys` lists the keys",
    )
    assert report(InvalidFile([problem], {"spec.yaml": "\n\n\n\n  gpus_per_nodes: 8\n"})) == (
        "error: unknown key `gpus_per_nodes`\n"
        "  --> spec.yaml:5:3\n"
        "   |\n"
        " 5 |   gpus_per_nodes: 8\n"
        "   |   ^^^^^^^^^^^^^^\n"
        "   = help: the nearest key is `gpus_per_node`; `dlrun keys` lists the keys\n"
    )


def test_problems_are_sorted_and_counted():
    problems = [
        Problem(message=m, origin=o) for m, o in (("third", None), ("second", at(12, 1)), ("first", at(2, 9)))
    ]
    text = report(InvalidFile(problems))
    assert [line for line in text.splitlines() if line.startswith("error")] == [
        "error: first",
        "error: second",
        "error: third",
        "error: 3 problems",
    ]


def test_warnings_are_not_counted():
    text = report_problems([Problem(message="w", warning=True, code="DLR016"), Problem(message="e")], {})
    assert text == "warning[DLR016]: w\n\nerror: e\n"


def test_only_the_place_is_known():
    source = {"spec.yaml": "resources: {walltime: 10:00:00, nodes: 2}\nname: 'a b'\n"}
    for origin, word in (
        (at(1, 23), "10"),
        (at(1, 40), "2"),
        (at(1, 12), "{"),
        (at(2, 7), "'a b'"),
        (at(1, 1), "resources"),
    ):
        assert caret(report_problems([Problem(message="x", origin=origin)], source))[1] == word


def test_a_place_without_line_shows_none():
    flag = Origin(layer=Layer.FLAG, name="--set a=b")
    assert (
        report_problems([Problem(message="x", origin=flag, help="y")], {})
        == "error: x\n  --> --set a=b\n   = help: y\n"
    )


def test_long_lines_are_cut_round_the_caret():
    source = {"spec.yaml": "a: [" + "x" * 5000 + ", BAD, " + "y" * 5000 + "]"}
    shown, word = caret(report_problems([Problem(message="x", origin=at(1, 5007), width=3)], source))
    assert word == "BAD"
    assert len(shown) < 110
    assert shown.startswith("…")
    assert shown.endswith("…")


def test_wide_characters_and_tabs_keep_the_caret_in_place():
    text = report_problems(
        [Problem(message="x", origin=at(1, 8), width=3)], {"spec.yaml": "日本:\t[e\u0301BAD]"}
    )
    line, marks = text.splitlines()[3:5]
    assert line == " 1 | 日本: [e\u0301BAD]"
    assert marks.index("^") == len(" 1 | ") + 4 + 3 + 1  # two wide characters, `: [`, an e with its accent


def test_nothing_reaches_the_terminal_as_a_command():
    name = "a\x1b[2Jb\udcff.yaml"
    source = {name: "x\x1b[31m: \u202ey\n"}
    problem = Problem(message="bad \x07 `\x1b]0;x`", origin=at(1, 1, name), help="\r\n")
    for form in ("text", "concise"):
        text = report_problems([problem], source, form=form)
        assert all(c.isprintable() or c == "\n" for c in text)
        text.encode()
    json.loads(report_problems([problem], source, form="json"))


def test_lines_end_where_yaml_ends_them():
    source = {"spec.yaml": "a: 1\rb: 2\r\nc: 3\u2028d: 4\x85e: 5\n"}
    for line, shown in enumerate(("a: 1", "b: 2", "c: 3", "d: 4", "e: 5"), start=1):
        assert caret(report_problems([Problem(message="x", origin=at(line, 1))], source))[0] == shown


def test_concise():
    problems = [Problem(message="x", origin=at(3, 4), code="DLR001"), Problem(message="y", warning=True)]
    assert report_problems(problems, {}, form="concise") == "spec.yaml:3:4: x [DLR001]\nwarning: y\n"


def test_json_is_one_object_a_line():
    problems = [
        Problem(message="x", origin=at(3, 4), width=2, help="h"),
        Problem(message="y", code="DLR001", warning=True),
    ]
    first, second = (json.loads(line) for line in report_problems(problems, {}, form="json").splitlines())
    assert first == {
        "severity": "error", "code": None, "message": "x", "help": "h", "origin": "spec.yaml", "layer": "spec",
        "line": 3, "column": 4, "width": 2,
    }  # fmt: skip
    assert (second["severity"], second["code"], second["origin"], second["line"]) == (
        "warning",
        "DLR001",
        None,
        None,
    )


def test_colour_adds_colour_and_nothing_else():
    error = InvalidFile([Problem(message="x", origin=at(1, 1), help="h")], {"spec.yaml": "abc\n"})
    coloured = report(error, colour=True)
    assert "\x1b[1;31merror\x1b[0m" in coloured
    import re

    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == report(error)
    assert "\x1b" not in report(error)
