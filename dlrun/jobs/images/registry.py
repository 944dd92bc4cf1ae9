"""The digest that a registry has for an image's name: one request, and one for a token where the registry asks for it."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

from dlrun.errors import OperationFailed
from dlrun.model.program import DIGEST, ImageSource
from dlrun.model.text import visible
from dlrun.system.paths import home, read_bytes

_SECONDS = 30.0
_MOST = 1 << 20
_KINDS = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json"
)
"""Kinds of manifests (OCI Distribution Specification, "Pulling manifests"; Docker, "Image Manifest V2")."""
_NEEDS_TOKEN, _MISSING, _LIMITED = 401, 404, 429


def digest(source: ImageSource, environment: Mapping[str, str], notice: Callable[[str], None]) -> str | None:
    """The digest of an image of a registry; None if it has none, or the registry does not tell it (it may tell the runtime, which
    has mirrors and credentials of its own).

    environment: variables of the container runtime. Raises OperationFailed if the registry limits requests, or has no such image.
    """
    if (named := source.registry) is None:
        return None
    host, repository, reference = named
    scheme = "http" if _is_plain(environment) else "https"
    url = f"{scheme}://{host}/v2/{repository}/manifests/{reference}"
    try:
        try:
            return _asked(url, {})
        except HTTPError as error:
            error.close()
            if error.code != _NEEDS_TOKEN:
                raise
            allowed = _authorization(error.headers.get("WWW-Authenticate", ""), host, environment)
            return _asked(url, {"Authorization": allowed}) if allowed else None
    except HTTPError as error:
        error.close()
        if error.code in (_MISSING, _LIMITED):
            raise _answered(error.code, source, host) from None
        why = f"it answered {error.code}"
    except (URLError, HTTPException, OSError, ValueError) as error:
        why = visible(str(getattr(error, "reason", "") or error) or type(error).__name__)
    notice(f"{source}: the registry {host} does not give its digest: {why}")
    return None


def _asked(url: str, headers: Mapping[str, str]) -> str | None:
    request = Request(url, method="HEAD", headers={"Accept": _KINDS})  # noqa: S310 - https, or http if the user sets it
    for name, value in headers.items():
        request.add_unredirected_header(name, value)  # another host must not get them
    with urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 - as above
        found = answer.headers.get("Docker-Content-Digest", "")
    return found if re.fullmatch(DIGEST, found) else None


def _authorization(asked: str, host: str, environment: Mapping[str, str]) -> str | None:
    """The value of `Authorization` for a challenge, None for one of another kind; raises HTTPError if no token is given out."""
    kind, _, rest = asked.partition(" ")
    who = _credentials(host, environment)
    if kind.lower() == "basic":
        return f"Basic {who}" if who else None
    given = dict(re.findall(r'(\w+)="([^"]*)"', rest))
    realm = given.pop("realm", "")
    if kind.lower() != "bearer" or urlsplit(realm).scheme not in ("https", "http"):
        return None
    request = Request(f"{realm}?{urlencode(given)}")  # noqa: S310 - checked above
    if who and (realm.startswith("https:") or _is_plain(environment)):
        request.add_unredirected_header("Authorization", f"Basic {who}")
    with urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 - as above
        found = json.loads(answer.read(_MOST))
    token = found.get("token") or found.get("access_token") if isinstance(found, dict) else None
    return f"Bearer {token}" if token else None


def _is_plain(environment: Mapping[str, str]) -> bool:
    """Whether registries are asked without TLS: the runtime's own variable."""
    given = (environment.get(f"{name}_NOHTTPS", "") for name in ("APPTAINER", "SINGULARITY"))
    return any(value.lower() in ("1", "t", "true", "y", "yes") for value in given)


def _credentials(host: str, environment: Mapping[str, str]) -> str | None:
    """User and password in base64: of the runtime's variables, else of its file or Docker's; None without any."""
    for name in ("APPTAINER_DOCKER", "SINGULARITY_DOCKER"):
        user, password = (environment.get(f"{name}_{part}") for part in ("USERNAME", "PASSWORD"))
        if user and password:
            return base64.b64encode(f"{user}:{password}".encode()).decode()
    own = home() or Path("/")
    places = [own / ".apptainer/docker-config.json", own / ".singularity/docker-config.json"]
    places.append(Path(os.environ.get("DOCKER_CONFIG") or own / ".docker") / "config.json")
    names = (host, "https://index.docker.io/v1/") if host.endswith("docker.io") else (host, f"https://{host}")
    for place in places:
        with suppress(OSError, ValueError, AttributeError, TypeError):
            known: Any = json.loads(read_bytes(place, _MOST)).get("auths") or {}
            for name in names:
                if found := known.get(name, {}).get("auth"):
                    return str(found)
    return None


def _answered(status: int, source: ImageSource, host: str) -> OperationFailed:
    if status == _MISSING:
        return OperationFailed(
            f"the registry {host} has no image `{source}`",
            help="check name and tag in `environment.container.image`",
        )
    return OperationFailed(
        f"the registry {host} limits requests (429)",
        help="submit again later; credentials raise the limit (`APPTAINER_DOCKER_USERNAME` and `APPTAINER_DOCKER_PASSWORD`)",
    )
