"""The reference pages and the generated parts of the README, from the code: `python -m docs.generate [--check]`.

`tests/test_docs.py` checks that they are current.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from unittest import mock

import click

from dlrun import backends
from dlrun.cli import main as cli, topics
from dlrun.cli.forms import FORMS
from dlrun.config.hints import Key, keys
from dlrun.config.key_paths import accepted, default, nested_schema
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.plan.codes import CODES
from docs.settings_page import settings_page
from docs.site_page import site_pages
from docs.sources_page import sources_page
from docs.troubleshooting_page import troubleshooting_page

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = "docs/reference"
WIDTHS = (80, 100)
"""Columns for which the help page of `dlrun` is made: those of no terminal, and those of a wide one."""
NOTE = "<!-- Written by `python -m docs.generate`; change the code instead. -->\n\n"

JOB_PAGE = "docs/guide/a-job.md"
EXAMPLE_JOB = "/scratch/vision/jobs/resnet50"
"""The job directory of the README's example."""


# --- Keys -----------------------------------------------------------------------------------------------------


def spec_page() -> str:
    """Every key of a training spec, with the options of every framework."""
    text = "# Keys of a training spec\n\n" + NOTE
    text += (
        "A spec is one YAML mapping. An unknown key is an error that names the nearest one. For editors: "
        "`dlrun keys --schema spec`, or [spec.schema.json](spec.schema.json).\n"
    )
    text += "".join(sections(Spec, "The spec", leave_out={"options"}))
    for name in backends.FRAMEWORKS:
        framework = backends.framework(name)
        text += f"\n## `{name}`: options of {framework.TITLE}\n\n"
        text += f"Written under `{name}:` in specs with `framework: {name}`.\n\n"
        known = keys(framework.Options)
        text += table_of_keys(known) if known else "It has no options.\n"
    return text


def site_page() -> str:
    """Every key of a site profile."""
    text = "# Keys of a site profile\n\n" + NOTE
    text += (
        "A profile is one YAML mapping in a file `NAME.yaml` on the search path (`dlrun site list --help`). "
        "`dlrun site check FILE` lists its problems. For editors: `dlrun keys --schema site`, or "
        "[site.schema.json](site.schema.json).\n"
    )
    return text + "".join(sections(Site, "The profile"))


def sections(schema: type, title: str, path: str = "", *, leave_out: set[str] = frozenset()) -> Iterator[str]:
    """A section for a mapping, then one for each mapping below it."""
    known = {name: key for name, key in keys(schema).items() if name not in leave_out}
    summary = (schema.__doc__ or "").split("\n\n")[0].replace("\n", " ").strip()
    yield f"\n## {title}\n\n{summary}\n\n{table_of_keys(known)}"
    for key in known.values():
        nested = nested_schema(key.hint)
        if nested.schema is not None:
            below = f"{path}{key.name}{nested.suffix}"
            yield from sections(nested.schema, f"`{below}`", f"{below}.")


def table_of_keys(known: Mapping[str, Key]) -> str:
    """Keys with meaning, accepted values and default."""
    rows = [
        (
            f"`{key.name}`",
            key.doc,
            accepted(key),
            f"`{text}`" if (text := default(key)) not in {"", "required"} else text,
        )
        for key in known.values()
    ]
    return table(("key", "meaning", "value", "default"), rows)


# --- Commands, codes, variables ---------------------------------------------------------------------------------


def commands_page() -> str:
    """Every command with its arguments and options."""
    text = "# Commands\n\n" + NOTE
    with click.Context(cli.group, info_name="dlrun", **cli.group.context_settings) as context:
        text += f"{paragraphs(cli.group.help).strip()}\n\n"
        text += "Options before the command:\n\n" + table_of_options(context, cli.group)
        text += "".join(overview())
        for name in (name for rows in cli.GROUPS.values() for name in rows):
            text += "".join(command_sections(context, _command(context, name), name))
            for option, form in FORMS.get(name, {}).items():
                title = f"{name} {option}"
                text += "".join(command_sections(context, _command(context, form.former), title))
                text += f"\nFormerly `dlrun {form.former}`, which is still accepted.\n"
    return text


def overview() -> Iterator[str]:
    """The commands by group, as `dlrun --help` has them, each with a link to its section and to its other forms."""
    for heading, rows in cli.GROUPS.items():
        cells = [
            (f"{_link(name)}", " · ".join(_link(f"{name} {option}") for option in FORMS.get(name, {})), text)
            for name, (_, text) in rows.items()
        ]
        yield f"\n**{heading}**\n\n{table(('command', 'other forms', 'purpose'), cells)}"


def _link(name: str) -> str:
    """A link to a command's section on this page."""
    return f"[`{name}`](#{f'dlrun {name}'.replace(' ', '-')})"


def _command(context: click.Context, name: str) -> click.Command:
    command = cli.group.get_command(context, name)
    assert command is not None  # noqa: S101 - the table names commands that exist
    return command


def command_sections(parent: click.Context, command: click.Command, name: str) -> Iterator[str]:
    """A section for a command, and one for each of its own commands."""
    with click.Context(command, info_name=name, parent=parent) as context:
        usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
        text = f"\n## `{context.command_path}`\n\n{paragraphs(command.help)}\n\n```console\n$ {usage}\n```\n"
        options = table_of_options(context, command)
        yield text + (f"\n{options}" if options else "") + example(command)
        if isinstance(command, click.Group):
            for below in command.list_commands(context):
                nested = command.get_command(context, below)
                assert nested is not None  # noqa: S101 - the group lists commands that exist
                yield from command_sections(context, nested, below)


def table_of_options(context: click.Context, command: click.Command) -> str:
    """The options of a command; empty if it has none."""
    records = [p.get_help_record(context) for p in command.params if isinstance(p, click.Option)]
    rows = [(f"`{names}`", text) for names, text in filter(None, records)]
    return table(("option", "meaning"), rows) if rows else ""


def example(command: click.Command) -> str:
    """The examples at the end of a command's help."""
    title, *lines = (command.epilog or "").removeprefix("\b\n").splitlines() or [""]
    commands = "".join(f"$ {line.strip()}\n" for line in lines)
    return f"\n{title}\n\n```console\n{commands}```\n" if commands else ""


def paragraphs(text: str | None) -> str:
    """A help text, one line a paragraph."""
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))


def codes_page() -> str:
    """Every problem code."""
    text = "# Problem codes\n\n" + NOTE
    text += (
        "Problems that involve several keys, or a spec and its site, have a code. "
        "`dlrun explain CODE` prints the same as this page.\n"
    )
    return text + "".join(
        f"\n## {code}: {title}\n\n{body}\n" for code, (title, body) in sorted(CODES.items())
    )


def environment_page() -> str:
    """Exit codes and environment variables, as `dlrun help` prints them."""
    text = "# Exit codes and environment variables\n\n" + NOTE
    text += "".join(
        f"\n## `dlrun help {name}`\n\n```text\n{body}\n```\n" for name, body in topics.TOPICS.items()
    )
    return text.replace("\n\n\n", "\n\n")


# --- Published launches -------------------------------------------------------------------------------------


def published_page() -> str:
    """Published launches as dlrun writes them, from the golden cases."""
    text = "# Published launches\n\n" + NOTE
    text += (
        "Launches of PRACE's Best Practice Guide: Deep Learning (2019), as specs, and what dlrun generates from them. "
        "Options that have changed since are given in their present form. Each is a golden case in `tests/golden/frameworks/`.\n"
    )
    for case in sorted((ROOT / "tests/golden/frameworks").glob("*/spec.yaml")):
        lines = case.read_text("utf-8").splitlines()
        said = [line.removeprefix("#").removeprefix(" ") for line in lines if line.startswith("#")]
        title, *rest = "\n".join(said).split("\n\n")
        spec = "\n".join(line for line in lines if not line.startswith("#"))
        text += f"\n## {title.rstrip('.').splitlines()[0]}\n\n" + "\n\n".join(rest).replace(
            "\n- ", "\n\n- ", 1
        )
        text += f"\n\n```yaml\n{spec.strip()}\n```\n"
        job, _, rank = case.with_name("launch.sh").read_text("utf-8").partition("\n\n")
        job = re.sub(r"^dlrun_take_ports .*\n", "", job + "\n", flags=re.MULTILINE).strip()
        text += f"\nIn `job.sh`:\n\n```bash\n{job}\n```\n\nIn `rank.sh`:\n\n```bash\n{rank.strip()}\n```\n"
    return text


# --- The README -------------------------------------------------------------------------------------------------


def readme(text: str) -> str:
    """The README with its parts between `<!-- NAME -->` and `<!-- end -->` generated again."""
    short = render_example(readme_spec(text, "The same job as a spec"))
    known = [name for name in backends.FRAMEWORKS if name not in backends.HISTORICAL]
    lines = (
        f"- schedulers: {_listed(backends.SCHEDULERS)}",
        f"- launchers: {_listed(backends.LAUNCHERS)}",
        f"- frameworks: {_listed(known)}; [historical ones](docs/frameworks/README.md#historical)",
    )
    parts = {
        "back ends": "".join(f"{line}\n" for line in lines),
        "page": f"```bash\n{essence(short['job.sh'])}```\n",
    }
    mistakes = sum(
        file.read_text("utf-8").count("\n=== ") + 1 for file in (ROOT / "tests/errors/mistakes").glob("*.txt")
    )
    return with_parts(re.sub(r"\b[0-9]+ mistakes\b", f"{mistakes} mistakes", text), parts)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def job_page() -> str:
    """The page about the scripts of a job, with both scripts of its spec."""
    text = (ROOT / JOB_PAGE).read_text(encoding="utf-8")
    scripts = render_example(readme_spec(text))
    return with_parts(text, {name: f"```bash\n{scripts[name]}```\n" for name in ("job.sh", "rank.sh")})


def with_parts(text: str, parts: Mapping[str, str]) -> str:
    """A page with its parts between `<!-- NAME -->` and `<!-- end -->` replaced; raises SystemExit if it has no such place."""
    for name, part in parts.items():
        head, begin, rest = text.partition(f"<!-- {name} -->\n")
        _, end, tail = rest.partition("<!-- end -->")
        if not (begin and end):
            raise SystemExit(f"the page has no place for `{name}`")
        text = head + begin + part + end + tail
    return text


_SHOWN = (
    "#!",
    "#SBATCH",
    "module load",
    "export OMP_",
    "export NCCL_SOCKET",
    "dlrun_launch",
    "dlrun_wait",
)


def essence(script: str) -> str:
    """The most important lines of a job script, without comments; `…` replaces others."""
    kept: list[str] = []
    for line in script.splitlines():
        if line.startswith(_SHOWN) or (kept and kept[-1].endswith("\\")):
            kept.append(line if line.startswith("#") else line.partition(" # ")[0])
        elif kept and kept[-1] != "…":
            kept.append("…")
    return "\n".join(kept) + "\n"


def node_picture() -> str:
    """A node of the README's first example with its ranks."""
    spec = readme_spec((ROOT / "README.md").read_text(encoding="utf-8"), "The same job as a spec")
    return in_a_home_of_its_own(spec, ["tune-affinity", "spec.yaml", "--format", "svg"])


def readme_spec(text: str, heading: str = "A spec and its job") -> str:
    """The spec that the README shows under a heading."""
    found = re.search(rf"^## {heading}\n.*?```yaml\n(.*?)```", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise SystemExit("the README shows no spec")
    return found[1]


def render_example(spec: str) -> dict[str, str]:
    """The scripts of a spec, rendered by the commands themselves."""
    text = in_a_home_of_its_own(spec, ["submit", "spec.yaml", "--dry-run", "--job-dir", EXAMPLE_JOB])
    job, _, rank = text.partition("\n--- rank.sh ---\n")
    return {"job.sh": job, "rank.sh": rank}


def in_a_home_of_its_own(spec: str, arguments: list[str]) -> str:
    """The output of a command about `spec.yaml`, without the settings of a user."""
    with tempfile.TemporaryDirectory() as home, contextlib.chdir(home):
        Path("spec.yaml").write_text(spec, encoding="utf-8")
        Path("train.py").touch()
        with mock.patch.dict(os.environ, {"HOME": home, "PATH": os.defpath}, clear=True):
            return printed(arguments)


def printed(arguments: list[str]) -> str:
    """The output of a command on stdout; raises SystemExit if it fails."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        if code := cli.run(arguments):
            raise SystemExit(code)
    return out.getvalue()


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in lines)


def help_pages() -> str:
    """The module with the help page of `dlrun` at the usual widths, which is shown without click."""
    pages = {}
    for width in WIDTHS:
        context = cli.group.make_context("dlrun", [], resilient_parsing=True, terminal_width=width - 2)
        pages[width] = context.get_help() + "\n"
    rows = "".join(f'    {width}: """\\\n{text}""",\n' for width, text in pages.items())
    return (
        '"""The help page of `dlrun` by the columns of the terminal, from `python -m docs.generate`: click takes longer."""\n\n'
        f"PAGES = {{\n{rows}}}\n"
    )


GENERATED: dict[str, Callable[[], str]] = {
    f"{REFERENCE}/spec.md": spec_page,
    f"{REFERENCE}/site.md": site_page,
    f"{REFERENCE}/commands.md": commands_page,
    f"{REFERENCE}/codes.md": codes_page,
    f"{REFERENCE}/environment.md": environment_page,
    "docs/frameworks/published.md": published_page,
    f"{REFERENCE}/settings.md": lambda: settings_page(NOTE),
    f"{REFERENCE}/site-sources.md": lambda: sources_page(NOTE),
    "docs/guide/troubleshooting.md": lambda: troubleshooting_page(NOTE),
    **site_pages(ROOT, NOTE),
    "docs/images/node.svg": node_picture,
    "dlrun/cli/front_pages.py": help_pages,
    JOB_PAGE: job_page,
    "README.md": lambda: readme((ROOT / "README.md").read_text(encoding="utf-8")),
}
"""The function that makes each generated file, by its path from the repository's root."""


def stale() -> dict[str, str]:
    """The generated files that are not current, with their current text."""
    texts = {path: make() for path, make in GENERATED.items()}
    return {path: text for path, text in texts.items() if not is_current(ROOT / path, text)}


def is_current(path: Path, text: str) -> bool:
    """Whether a file has this text."""
    return path.is_file() and path.read_text(encoding="utf-8") == text


def main() -> int:
    """Write what has changed, or with `--check` name it."""
    check = sys.argv[1:] == ["--check"]
    old = stale()
    for path, text in old.items():
        if not check:
            (ROOT / path).parent.mkdir(exist_ok=True)
            (ROOT / path).write_text(text, encoding="utf-8")
        click.echo(f"{path}: {'not current' if check else 'written'}")
    return 1 if check and old else 0


if __name__ == "__main__":
    sys.exit(main())
