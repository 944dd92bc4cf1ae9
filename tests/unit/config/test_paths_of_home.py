"""`~` and `$HOME` in every key that names a path: the keys are found in the model, so that a new one is tested, too."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlrun import backends
from dlrun.config.decode import decode
from dlrun.config.document import parse
from dlrun.config.hints import keys
from dlrun.jobs.records.jobs import base_for
from dlrun.model import keys as model_keys
from dlrun.model.origin import Layer, Origin
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.text import expanding
from dlrun.system.inputs.home import at_home
from dlrun.system.inputs.profiles import Machine, load_site, locate
from dlrun.system.paths import expanded

NO_PATH = {
    "environment.container.workdir": "a directory inside the container",
    "site": "read where dlrun runs: `locate`, below",
    "code.exclude": "patterns below the top of the repository",
    "code.include": "patterns below the top of the repository",
    "files": "patterns below the directory of the submission, none of which begins at home",
    "after.job": "a job by id, name or directory, as on the command line",
    "data.start": "an amount",
    "data.version": "a digest",
    "log_link": "a file name without a path",
    "node_types.capture": "read where dlrun runs: `expanded`, below",
    "storage.jobs": "by variables of the login shell: `base_for`, below",
    "storage.node_local.path": "expands on the node: `expanding`, below",
    "storage.shared": "mount points, compared with those of the nodes",
    "fabric.name": "a name",
    "roles.ready.http": "a path on a web server",
    "sources.cite": "a citation",
    "sources.covers": "keys",
}
"""Keys whose description has a word for files, and that are not marked as paths, each with the reason."""


def found(schema: type, place: str = "") -> Iterator[tuple[str, dataclasses.Field]]:
    """Every key below a dataclass, by its dotted name; names of mappings are left out."""
    hints = typing.get_type_hints(schema)
    for field in dataclasses.fields(schema):
        name = f"{place}.{field.name}".lstrip(".")
        yield name, field
        for inner in classes(hints[field.name]):
            yield from found(inner, name)


def classes(hint: object) -> Iterator[type]:
    """The dataclasses in a type hint."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        yield hint
    for part in typing.get_args(hint):
        yield from classes(part)


PATHS = [name for name, field in found(Spec) if field.metadata.get("path")]
ABOUT_FILES = re.compile(r"\b(?:paths?|director(?:y|ies)|mount points?)\b|(?<!log )\bfiles?\b(?! system)")


def text_of(name: str, value: str) -> str:
    """A spec's lines with this one path key."""
    if name.startswith("roles."):
        return f"roles: {{r: {{command: [a], {text_of(name.removeprefix('roles.'), value)}}}}}"
    forms = {
        "data.source": f"data: {{d: {{source: {value}, strategy: in_place}}}}",
        "data.checksums": f"data: {{d: {{source: /data, strategy: copy, checksums: {value}}}}}",
        "secrets.file": f"secrets: {{S: {{file: {value}}}}}",
        "environment.container.image": f"environment: {{container: {{image: {value}}}}}",
        "environment.container.binds": f"environment: {{container: {{image: a.sif, binds: ['{value}:/in']}}}}",
    }
    if name in forms:
        return forms[name]
    first, _, rest = name.partition(".")
    return f"{first}: {{{rest}: {value}}}" if rest else f"{first}: {value}"


def test_every_key_about_files_is_a_path_or_has_a_reason():
    about = {
        name
        for schema in (Spec, Site)
        for name, field in found(schema)
        if not field.metadata.get("path")
        and str in scalars(schema, name)
        and ABOUT_FILES.search(field.metadata.get("doc", ""))
    }
    of_roles = {name for name in about if name.removeprefix("roles.") in NO_PATH}
    assert about == {*NO_PATH, *of_roles}


def scalars(schema: type, name: str) -> tuple[type, ...]:
    """The types of text that a key takes, also as items of a list."""
    *outer, last = name.split(".")
    for part in outer:
        hint = keys(schema)[part].hint
        schema = hint.schema or (hint.values.schema if hint.values else None) or hint.items[0].schema
    hint = keys(schema)[last].hint
    return (*hint.scalars, *(t for item in hint.items for t in item.scalars))


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("written", ["~/x", "$HOME/x", "${HOME}/x"])
def test_a_path_at_home(name, written, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "x").mkdir()
    spec = spec_of(text_of(name, f'"{written}"' if "binds" not in name else written))
    values = [
        path
        for place, path in model_keys.paths(spec)
        if re.sub(r"\.\d+$|(?<=data)\.d|(?<=secrets)\.S|(?<=roles)\.r", "", place) == name
    ]
    assert [value.removesuffix(":/in") for value in values] == ["~/x"]
    out = [
        path for place, path in model_keys.paths(at_home(spec, "/home/ada")) if path.startswith("/home/ada/x")
    ]
    assert len(out) == 1, "where the job runs, it begins with the home directory there"


def spec_of(text: str) -> Spec:
    """The values of a spec, its paths as the loader leaves them."""
    document = parse(f"name: x\ncommand: [a]\n{text}\n", Origin(layer=Layer.SPEC, name="spec.yaml"))
    decoded = decode(document.root, Spec, options=backends.framework_options)
    assert [*document.problems, *decoded.problems] == []
    return model_keys.with_paths(decoded.value, model_keys.from_home)


@pytest.mark.parametrize("written", ["~", "$HOME"])
def test_paths_of_a_profile(written, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    here = Machine(environment={}, home=tmp_path, root=tmp_path)
    assert locate(f"{written}/p.yaml", here, Path("/base")) == tmp_path / "p.yaml"
    assert expanded(f"{written}/capture.json") == tmp_path / "capture.json"
    assert str(expanding(f"{written}/local")) == "${HOME}/local"
    (tmp_path / "p.yaml").write_text(
        f"name: p\nscheduler: {{type: slurm}}\nlauncher: {{name: srun}}\nstorage: {{jobs: {written}/jobs}}\n"
    )
    site = load_site(f"{written}/p.yaml", here=here).site
    assert base_for(site, {"HOME": str(tmp_path)}) == tmp_path / "jobs"
