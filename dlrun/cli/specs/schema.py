"""`dlrun keys --schema`: the JSON Schema of specs and site profiles, for editors and CI."""

from __future__ import annotations

import click

from dlrun.terminal.help_page import examples
from dlrun.terminal.printing import echo_data


@click.command(epilog=examples("dlrun keys --schema spec > spec.schema.json"))
@click.argument("document", type=click.Choice(["spec", "site"]))
def command(document: str) -> None:
    """Print the JSON Schema of a training spec or of a site profile.

    Editors with YAML support check and complete files that begin with `# yaml-language-server: $schema=spec.schema.json`.
    """
    echo_data(text(document))


def text(document: str) -> str:
    """The schema as printed, and as stored in `docs/reference`."""
    import json

    from dlrun import backends
    from dlrun.config.schema import site_schema, spec_schema

    if document == "site":
        schema = site_schema()
    else:
        schema = spec_schema({name: backends.framework(name).Options for name in backends.FRAMEWORKS})
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
