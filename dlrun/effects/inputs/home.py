"""`~` in a spec: the home directory where the job runs, which only whoever knows that home can write out."""

from __future__ import annotations

from dataclasses import replace

from dlrun.model.spec import Spec


def at_home(spec: Spec, home: str) -> Spec:
    """The spec with its paths written out; other users' homes (`~bob`) stay as they are."""

    def out(path: str) -> str:
        return home + path[1:] if path == "~" or path.startswith("~/") else path

    def maybe(path: str | None) -> str | None:
        return None if path is None else out(path)

    environment = spec.environment
    if (container := environment.container) is not None:
        binds = tuple(out(bind) for bind in container.binds)
        container = replace(container, image=out(container.image), binds=binds)
    return replace(
        spec,
        directory=maybe(spec.directory),
        environment=replace(
            environment, venv=maybe(environment.venv), conda=maybe(environment.conda), container=container
        ),
        data={name: replace(data, source=out(data.source)) for name, data in spec.data.items()},
        secrets={name: replace(secret, file=maybe(secret.file)) for name, secret in spec.secrets.items()},
    )
