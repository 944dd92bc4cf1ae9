"""`dlrun keys`: the keys of training specs and site profiles."""

from __future__ import annotations

import click

from dlrun.terminal.help_page import examples
from dlrun.terminal.options import json_option
from dlrun.terminal.printing import echo, emit


@click.command(epilog=examples("dlrun keys resources", "dlrun keys torch", "dlrun keys --profile partitions"))
@click.argument("path", default="")
@click.option("--profile", is_flag=True, help="Keys of a site profile instead of a training spec.")
@json_option
def command(path: str, profile: bool, as_json: bool) -> None:
    """List the keys of a training spec, or those below PATH (dotted, as in `resources`), with values, default and meaning."""
    from dlrun import backends
    from dlrun.config.hints import keys
    from dlrun.config.key_paths import accepted, default, find_key, nested_schema
    from dlrun.errors import Invalid
    from dlrun.model.problem import Problem
    from dlrun.model.site import Site
    from dlrun.model.spec import Spec

    options = {} if profile else {name: backends.framework(name).Options for name in backends.FRAMEWORKS}
    place = find_key(Site if profile else Spec, path, options)
    if isinstance(place, Problem):
        raise Invalid(place.message, help=place.help)
    listed = (
        list(keys(place.schema).values()) if place.schema is not None else [place.key] if place.key else []
    )
    rows = [
        (key.name, accepted(key).partition(", such as")[0], default(key), key.doc)
        for key in listed
        if key.name != "options" or path
    ]
    if as_json:
        emit("keys", [dict(zip(("key", "value", "default", "meaning"), row, strict=True)) for row in rows])
        return
    from dlrun.terminal.table import Column, show

    columns = (
        Column(title="key"),
        Column(title="value", drop=2),
        Column(title="default", drop=1),
        Column(title="meaning"),
    )
    marked = {key.name for key in listed if nested_schema(key.hint).schema is not None}
    show(columns, [(f"{name} …" if name in marked and place.schema else name, *rest) for name, *rest in rows])
    if not path and not profile:
        current = [name for name in backends.FRAMEWORKS if name not in backends.HISTORICAL]
        echo(
            f"Options of a framework: `dlrun keys NAME`, of {', '.join(current)}; "
            f"historical: {', '.join(backends.HISTORICAL)}.",
            err=True,
        )
