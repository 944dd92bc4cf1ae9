"""The files of a job directory as text, the same for `render` and `submit`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import dlrun.node
from dlrun import backends
from dlrun.config.secret_names import without_secrets
from dlrun.errors import Invalid
from dlrun.jobs.records import spec_arguments
from dlrun.jobs.submission.template_cache import cached
from dlrun.model.job import role_directory
from dlrun.model.plan import Plan
from dlrun.model.text import visible
from dlrun.plan.runtime_checks import NODE_CHECKS, SAMPLER, programs
from dlrun.render.pages import pages
from dlrun.render.parts import keeps, library
from dlrun.render.script import plan_json
from dlrun.resources import directory as resource, text
from dlrun.system.inputs.spec import Inputs
from dlrun.system.paths import working_directory

_NODE = Path(dlrun.node.__file__).parent
_XXHASH = "libxxhash.so.0"
_SYSTEM = tuple(
    Path(place, _XXHASH)
    for place in ("/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
)
"""Paths of the library in Linux distributions (Debian's multiarch, Red Hat, SUSE, Arch)."""
BUNDLE = "node.pyz"
"""All node programs in one file."""
COORDINATOR = ("roles.py", "role.py", "role_nodes.py", "role_ports.py", "ready.py", "coordinator.py")
"""The program that runs the roles of a job, and its modules."""


def files(plan: Plan, inputs: Inputs | None, directory: Path, *, archives: bool = True) -> dict[str, str]:
    """Every file of the job directory, by name; without the `archives` of node programs where the pages are only shown."""
    _check_setup_lines(plan)
    _check_place(plan, directory)
    compiled, templates = cached(), resource("templates")
    made = pages(plan, str(directory), templates, compiled)
    # Saved before the later steps, which may fail: the compiled templates are valid.
    compiled.save()
    if inputs is None:
        _check_scripts(made)
    made |= _beside_pages(plan, made, templates, archives=archives)
    for role in plan.each_role:
        place = role_directory(role.name)
        of_role = {
            name.removeprefix(f"{place}/"): made[name] for name in made if name.startswith(f"{place}/")
        }
        beside = _beside_pages(role.plan, of_role, templates, archives=archives)
        made |= {f"{place}/{name}": text for name, text in beside.items()}
    if inputs is not None:
        # Values that are secrets were refused; comments and overridden values may still have some.
        for name, path in (("spec.yaml", inputs.path), ("site.yaml", inputs.loaded.path)):
            made[name] = without_secrets(inputs.sources.get(str(path), ""), same_length=True)
        made[spec_arguments.SETTINGS] = spec_arguments.text(
            working_directory(), inputs.loaded.path, inputs.layers.sets
        )
    return made


def _beside_pages(plan: Plan, pages: Mapping[str, str], templates: Path, *, archives: bool) -> dict[str, str]:
    """The files that the pages of a plan need beside them: the library, the plan, node programs."""
    made = library_files(plan, templates)
    made["plan.json"] = plan_json(plan)
    if plan.role_jobs is not None:
        checks = [NODE_CHECKS] if plan.node_checks is not None else []
        return made | {name: _node_program(name) for name in (*COORDINATOR, *checks)}
    of_roles = [name for role in plan.roles for name in role.files]
    wanted = dict.fromkeys([*of_roles, *programs(plan)])
    for name in (name for name in wanted if name not in (BUNDLE, SAMPLER)):
        made[name] = _node_program(name)
    nodes_copy = "stage.sh" in pages or keeps(plan)
    if "image.sh" in pages:
        from dlrun.system.transport import scripts as login_scripts  # noqa: PLC0415 - for images alone

        made["lib/to-store.sh"] = login_scripts.script("image")
    if archives and (nodes_copy or BUNDLE in wanted or "image.sh" in pages):
        made[BUNDLE] = _archive("content")
    if archives and SAMPLER in wanted:
        made[SAMPLER] = _archive("sampler")
    if archives and nodes_copy:
        made |= _hash_library()
    if any(data.strategy != "in_place" for data in plan.data):
        made["python/dlrun_data.py"] = text(_NODE / "dlrun_data.py")
    return made


def _check_place(plan: Plan, directory: Path) -> None:
    """Raise Invalid for a directory with a name that the scheduler would replace in the paths of the logs."""
    pattern = backends.scheduler(plan.scheduler).PATTERNS
    if pattern is not None and (match := re.search(pattern, str(directory))):
        sign = visible(match[0])
        raise Invalid(
            f"{plan.scheduler} cannot write logs to `{directory}`, because `{sign}` has a special meaning in its paths",
            help="name another directory with `--job-dir` or `DLRUN_JOBS`",
        )


def _archive(which: str) -> str:
    """A file of node programs as text: bytes that are not UTF-8 are decoded as surrogates and encoded back unchanged."""
    from dlrun.jobs.submission import node_archive  # noqa: PLC0415 - zipfile and the like

    made: bytes = getattr(node_archive, which)()
    return made.decode("utf-8", errors="surrogateescape")


def _check_setup_lines(plan: Plan) -> None:
    """Raise Invalid for set-up lines that are not whole commands: they would take lines of the page that follow into theirs."""
    owners = {"the site profile": plan.environment.site_setup, "the spec": plan.environment.setup}
    for role in plan.each_role:
        owners[f"role `{role.name}`"] = role.plan.environment.setup
    for owner, lines in owners.items():
        if lines and (fault := _syntax_error("\n".join(lines) + "\n")):
            place = fault.removeprefix("bash: ")
            raise Invalid(
                f"`environment.setup` of {owner} is not valid bash: {place}",
                help="each list must be complete by itself: quotes, brackets, `if … fi`, here-documents",
            )


def _syntax_error(script: str) -> str:
    """The first line that bash reports about a script's syntax, also a warning; empty for a valid script or without bash."""
    from dlrun.system.process import NotInstalled, run  # noqa: PLC0415 - for set-up lines and saved plans alone

    with suppress(NotInstalled):
        # A clean environment: bash also reports locales and exported functions that it cannot use. With extglob, since an
        # earlier line may enable it, which is not run here.
        clean = {"PATH": os.environ.get("PATH", os.defpath)}
        checked = run(["bash", "-O", "extglob", "-n"], text=script, environment=clean)
        return checked.stderr.strip().partition("\n")[0]
    return ""


def _check_scripts(scripts: Mapping[str, str]) -> None:
    """Raise Invalid for a script with a syntax error: a plan read from its file may have been edited."""
    for name, script in scripts.items():
        if name.endswith(".sh") and (fault := _syntax_error(script)):
            raise Invalid(
                f"the saved plan gives a `{name}` that bash cannot read: {fault}",
                help="correct its `shell` parts, or create it again with `dlrun plan -o`",
            )


def _node_program(name: str) -> str:
    """The text of a node program with its own file, in `checks` or directly in `dlrun/node`."""
    try:
        return text(_NODE / "checks" / name)
    except FileNotFoundError:
        return text(_NODE / name)


def _hash_library() -> dict[str, str]:
    """The XXH3 library of this host, for nodes without it; a node that cannot load it uses another hash function."""
    for path in (*_SYSTEM, *_of_package()):
        with suppress(OSError):
            return {_XXHASH: path.read_bytes().decode("utf-8", errors="surrogateescape")}
    return {}


def _of_package() -> list[Path]:
    """The compiled module of the Python package xxhash: a shared library that exports the same functions."""
    from importlib.util import find_spec  # noqa: PLC0415 - for hosts without the system's library alone

    spec = find_spec("xxhash")
    places = (spec.submodule_search_locations or ()) if spec else ()
    return [path for place in places for path in Path(place).glob("_xxhash*.so")]


def library_files(plan: Plan, templates: Path) -> dict[str, str]:
    """The files of the bash library that a job's pages source."""
    texts = {
        name: [text(templates / "lib" / f"{part}.sh") for part in parts]
        for name, parts in library(plan).items()
    }
    return {f"lib/{name}.sh": "\n".join(parts) for name, parts in texts.items()}
