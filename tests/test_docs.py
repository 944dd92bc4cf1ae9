"""The documentation says what is: generated parts are current, and what it names exists, and the reverse."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import click
import pytest

from dlrun import backends
from dlrun.cli import main as cli
from dlrun.cli.forms import FORMER, FORMS, chosen
from dlrun.cli.topics import TOPICS
from dlrun.config.decode import decode
from dlrun.config.document import parse
from dlrun.config.hints import Hint, keys
from dlrun.config.programs import with_roles
from dlrun.model.origin import Layer, Origin
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.plan.codes import CODES
from dlrun.plan.command.command_line import ROLE_VALUES
from docs import generate
from tests.library import PARTS

ROOT = generate.ROOT
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "templates" / "README.md"]
}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
GUIDE = "docs/guide/first-job.md"


def blocks(language: str) -> list[tuple[str, str]]:
    """Every fenced block of a language, with its page."""
    return [
        (page, body) for page, text in PAGES.items() for kind, body in BLOCK.findall(text) if kind == language
    ]


def inline_code(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", BLOCK.sub("", text))


def command_lines(text: str) -> list[str]:
    """Every command line of dlrun that a page shows, inline or in a block."""
    lines = inline_code(text)
    for _, body in BLOCK.findall(text):
        lines += [line.removeprefix("$ ") for line in body.splitlines()]
    return [line for line in lines if line.startswith("dlrun ")]


def test_pages_name_commands_as_they_are_listed():
    """Former names still work, but a reader finds them neither in `dlrun --help` nor in the reference."""
    former = re.compile(rf"(?<!from )\bdlrun ({'|'.join(FORMER)})\b")
    found = [
        f"{page}: {line}"
        for page, text in PAGES.items()
        for line in text.splitlines()
        if former.search(line) and not line.startswith("Formerly `")
    ]
    assert found == []


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without settings, on a machine that is the workstation site."""
    for name in [n for n in os.environ if n.startswith(("DLRUN_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DLRUN_SITE", "workstation")
    monkeypatch.chdir(ROOT)
    return tmp_path


@pytest.mark.parametrize("path", generate.GENERATED)
def test_generated_parts_are_current(path):
    assert (ROOT / path).read_text("utf-8") == generate.GENERATED[path](), "run `python -m docs.generate`"


def test_the_readme_is_short_and_begins_with_the_two_ways_in():
    assert len(PAGES["README.md"].splitlines()) <= 150
    first, second = BLOCK.findall(PAGES["README.md"])[:2]
    assert first == ("bash", "dlrun init --from job.sbatch -o spec.yaml\n")
    assert second == ("bash", "dlrun run -- python train.py --lr 0.1\n")


def test_the_two_scripts_of_a_newcomer_can_be_run():
    for script in ("scripts/digits.sh", "scripts/test.sh"):
        assert os.access(ROOT / script, os.X_OK)
    first, second = re.findall(r"^.*scripts/test\.sh.*$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert first == "HOME=$home scripts/test.sh || failed=1"
    assert second == "scripts/test.sh --all || failed=1"


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_options_exist(page):
    for line in command_lines(PAGES[page]):
        exists(page, line)


def exists(page: str, line: str) -> None:
    words = shlex.split(line.partition(" | ")[0].partition(" > ")[0].partition(" && ")[0])[1:]
    command: click.Command = cli.group
    context = click.Context(command)
    while isinstance(command, click.Group) and words and words[0].islower() and not words[0].startswith("-"):
        name, below = words[0], command.get_command(context, words[0])
        assert below is not None, f"{page} names `{line}`"
        command, words = below, words[1:]
        if (place := chosen(name, command, words)) is not None:
            form = FORMS[name][words[place].partition("=")[0]]
            command, words = cli.group.get_command(context, form.former), words[:place] + words[place + 1 :]
    known = {option for parameter in command.params for option in parameter.opts} | {"--help", "-h"}
    if "--" in words:  # what follows is another program's
        words = words[: words.index("--")]
    used = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert used <= known, f"{page} names `{line}`"


@pytest.mark.parametrize(("page", "text"), blocks("yaml"))
def test_yaml_examples_are_valid(page, text):
    of_site = text.startswith("# site profile")
    whole = text if of_site or text.startswith("name:") else f"name: x\ncommand: [x]\n{text}"
    document = parse(whole, Origin(layer=Layer.SITE if of_site else Layer.SPEC, name=page))
    root, roles, faults = (document.root, {}, []) if of_site else with_roles(document.root)
    of_roles = [decode(role, Spec, options=backends.framework_options).problems for role in roles.values()]
    assert [*faults, *(problem for problems in of_roles for problem in problems)] == []
    decoded = decode(root, Site if of_site else Spec, options=backends.framework_options, partial=of_site)
    assert [*document.problems, *decoded.problems] == []


def resolves(path: list[str], schema: type) -> bool:
    known = keys(schema)
    return path[0] in known and _below(known[path[0]].hint, path[1:])


def _below(hint: Hint, path: list[str]) -> bool:
    if not path or hint.anything:
        return True
    if hint.values is not None:
        return _below(hint.values, path[1:])
    return hint.schema is not None and resolves(path, hint.schema)


@pytest.mark.parametrize("page", PAGES)
def test_keys_that_pages_name_exist(page):
    top = {*keys(Spec), *keys(Site)}
    for code in inline_code(PAGES[page]):
        if re.fullmatch(r"[a-z_]+(\.[A-Za-z_]+)+", code) and not re.search(
            r"\.(yaml|sh|json|log|pyz?|md)$", code
        ):
            path = code.split(".")
            if path[0] in top:
                assert resolves(path, Spec) or resolves(path, Site), code


def test_every_problem_code_has_a_page_and_no_other_is_named():
    named = {code for text in PAGES.values() for code in re.findall(r"DLR\d{3}", text)}
    assert named == set(CODES)


def test_variables_that_pages_name_exist():
    code = "".join(
        path.read_text(encoding="utf-8")
        for pattern in ("dlrun/**/*.py", "templates/**/*.j2", "templates/lib/*.sh", "dlrun/**/*.sh")
        for path in ROOT.glob(pattern)
        if path.name != "topics.py"
    )
    named = {name for text in PAGES.values() for name in re.findall(r"DLRUN_[A-Z]+(?:_[A-Z]+)*", text)}
    named -= {f"DLRUN_ROLE_MODEL_{value.upper()}" for value in ROLE_VALUES}
    named -= {"DLRUN_SET_RESOURCES", "DLRUN_SET_A", "DLRUN_DATA_NAME", "DLRUN_DATA_IMAGENET"}
    of_tests = [
        path for pattern in ("tests/*.py", "tests/*/*.py", "scripts/*.sh") for path in ROOT.glob(pattern)
    ]
    tests = "".join(path.read_text(encoding="utf-8") for path in of_tests if path.name != "test_docs.py")
    own = ("DLRUN_TEST_", "DLRUN_EXAMPLES", "DLRUN_PASSED")
    read_by = {name: tests if name.startswith(own) else code for name in named}
    assert {name for name, where in read_by.items() if not re.search(rf"{name}\b|{name}_\b", where)} == set()


def test_variables_of_jobs_are_documented():
    paths = [*ROOT.glob("templates/**/*.j2"), *PARTS.values()]
    lines = re.findall(r"export (.*)", "".join(path.read_text(encoding="utf-8") for path in paths))
    exported = {name for line in lines for name in re.findall(r"\b(DLRUN_[A-Z_]+)=", f"{line}=")}
    assert exported <= set(re.findall(r"DLRUN_[A-Z_]+", TOPICS["environment"]))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", PAGES[page]):
        if not re.match(r"[a-z]+:", target):
            assert (ROOT / page).parent.joinpath(target).exists(), target


OF_THE_SOURCE = [page for page in PAGES if re.match(r"CONTRIBUTING|docs/(?:concepts|decisions)/", page)]


@pytest.mark.parametrize("page", OF_THE_SOURCE)
def test_paths_of_the_source_exist(page):
    """A module that has moved leaves its old path behind in the pages about the code."""
    tops = {path.name for path in ROOT.iterdir() if path.is_dir()}
    paths = [word.split()[0] for word in inline_code(PAGES[page]) if word.partition("/")[0] in tops]
    literal = [path for path in paths if not re.search(r"[A-Z]{3}|[*{…]", path)]
    assert [path for path in literal if not (ROOT / path.partition("::")[0]).exists()] == []


def test_names_in_expressions_exist(own_home, capsys):
    table = PAGES["docs/concepts/plan.md"].partition("| name | value |")[2].partition("\n\n")[0]
    names = [name for row in table.splitlines()[2:] for name in re.findall(r"`([\w.]+)`", row.split("|")[1])]
    assert len(names) > 10
    spec = own_home / "spec.yaml"
    words = "".join(f'  - "{{{{ {name} }}}}"\n' for name in names)
    spec.write_text(f"name: x\nbatch_per_rank: 8\ndata: {{NAME: /}}\ncommand:\n  - echo\n{words}")
    assert cli.run(["render", str(spec), "--rank"]) == 0, capsys.readouterr().err


def guide_lines() -> list[str]:
    """The commands of the first guide that submit nothing."""
    text = PAGES[GUIDE]
    lines = [line.removeprefix("$ ") for _, body in BLOCK.findall(text) for line in body.splitlines()]
    quiet = re.compile(r"dlrun (plan|explain|render|list|status$|submit .*--dry-run)")
    return [line for line in lines if quiet.match(line)]


@pytest.mark.parametrize("line", guide_lines())
def test_the_guide_can_be_followed(line, own_home, capsys):
    assert cli.run(shlex.split(line)[1:]) == 0, capsys.readouterr().err


def test_the_guide_shows_the_spec_as_it_is():
    spec = (ROOT / "examples" / "digits" / "spec.yaml").read_text(encoding="utf-8")
    shown = next(body for page, body in blocks("yaml") if page == GUIDE)
    assert spec.endswith(shown)


def test_the_guide_shows_the_error_as_it_is(own_home, capsys):
    command, error = re.search(
        r"^\$ (dlrun [^\n]*nods[^\n]*)\n```\n\n```text\n(.*?)```", PAGES[GUIDE], re.DOTALL | re.MULTILINE
    ).groups()
    assert cli.run(shlex.split(command)[1:]) == 2
    assert capsys.readouterr().err == error


def test_shown_answers_are_the_real_ones(own_home, capsys, monkeypatch):
    (own_home / "spec.yaml").write_text(generate.readme_spec(PAGES["docs/guide/a-job.md"]), encoding="utf-8")
    monkeypatch.chdir(own_home)
    shown = [
        body.removeprefix("$ ").partition("\n")
        for page, body in blocks("console")
        if page.startswith("docs/concepts/") and len(body.splitlines()) > 1
    ]
    assert shown
    for line, _, answer in shown:
        assert cli.run(shlex.split(line)[1:]) == 0
        assert capsys.readouterr().out == answer


@pytest.mark.parametrize(
    "case", sorted((ROOT / "tests/golden/sites").glob("*/job-lines.sh")), ids=lambda path: path.parent.name
)
def test_a_site_page_shows_the_directives_of_its_job(case):
    page = (ROOT / "docs" / "sites" / f"{case.parent.name}.md").read_text(encoding="utf-8")
    found = [
        line
        for line in case.read_text(encoding="utf-8").splitlines()
        if re.match(r"#( flux:|\$|SBATCH|PBS)", line)
    ]
    assert [line for line in found if line.split(" #")[0].rstrip() not in page] == []
