"""The digest that a registry has for an image's name, asked for at a submission."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.error import HTTPError

from dlrun.errors import OperationFailed
from dlrun.model.program import ImageSource
from dlrun.model.text import visible
from dlrun.node.commands import image_digest


def digest(source: ImageSource, environment: Mapping[str, str], notice: Callable[[str], None]) -> str | None:
    """The digest of an image of a registry; None if it has none, or the registry does not tell it (it may tell the runtime, which
    has mirrors and credentials of its own).

    environment: variables of the container runtime. Raises OperationFailed if the registry limits requests, or has no such image.
    """
    if (named := source.registry) is None:
        return None
    try:
        return image_digest.asked(*named, environment)
    except HTTPError as error:
        error.close()
        if error.code in (image_digest.MISSING, image_digest.LIMITED):
            raise _answered(error.code, source, named[0]) from None
        why = f"it answered {error.code}"
    except image_digest.FAULTS as error:
        why = visible(image_digest.in_words(error))
    notice(f"{source}: the registry {named[0]} does not give its digest: {why}")
    return None


def _answered(status: int, source: ImageSource, host: str) -> OperationFailed:
    if status == image_digest.MISSING:
        return OperationFailed(
            f"the registry {host} has no image `{source}`",
            help="check name and tag in `environment.container.image`",
        )
    return OperationFailed(
        f"the registry {host} limits requests (429)",
        help="submit again later; credentials raise the limit (`APPTAINER_DOCKER_USERNAME` and `APPTAINER_DOCKER_PASSWORD`)",
    )
