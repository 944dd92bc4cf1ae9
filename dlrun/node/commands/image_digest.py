"""The digest that a registry has for an image's name: one request, and one for a token where the registry asks for it.

Used at a submission (dlrun/jobs/images/registry.py), and in a job that pulls its image: `image-digest HOST REPOSITORY REFERENCE`.
"""

import base64
import json
import os
import re
import sys
from http.client import HTTPException
from typing import Any, Dict, Iterator, List, Mapping, Optional
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

SECONDS = 30.0
_MOST = 1 << 20
_DIGEST = r"sha256:[0-9a-f]{64}"
_KINDS = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json"
)
"""Kinds of manifests (OCI Distribution Specification, "Pulling manifests"; Docker, "Image Manifest V2")."""
NEEDS_TOKEN, MISSING, LIMITED = 401, 404, 429
FAULTS = (URLError, HTTPException, OSError, ValueError)
"""What `asked` raises where the registry cannot be asked; HTTPError, for an answer that is an error, is one of them."""


def main(words: List[str]) -> int:
    """Write `digest DIGEST`, or `missing` (no such image), `limited` (too many requests), or `none WHY`."""
    try:
        digest = asked(words[0], words[1], words[2], os.environ)
        answer = "digest {}".format(digest) if digest else "none it has none"
    except HTTPError as error:
        error.close()
        known = {MISSING: "missing", LIMITED: "limited"}
        answer = known.get(error.code, "none it answered {}".format(error.code))
    except FAULTS as error:
        answer = "none {}".format(" ".join(in_words(error).split()))
    sys.stdout.write(answer + "\n")
    return 0


def in_words(error: BaseException) -> str:
    """Why the registry could not be asked."""
    return str(getattr(error, "reason", "") or error) or type(error).__name__


def asked(host: str, repository: str, reference: str, environment: Mapping[str, str]) -> Optional[str]:
    """The digest of a tag; None if the registry does not tell it. Raises one of `FAULTS`.

    environment: variables of the container runtime.
    """
    scheme = "http" if _is_plain(environment) else "https"
    url = "{}://{}/v2/{}/manifests/{}".format(scheme, host, repository, reference)
    try:
        return _head(url, {})
    except HTTPError as error:
        error.close()
        if error.code != NEEDS_TOKEN:
            raise
        allowed = _authorization(error.headers.get("WWW-Authenticate", ""), host, environment)
        return _head(url, {"Authorization": allowed}) if allowed else None


def _head(url: str, headers: Mapping[str, str]) -> Optional[str]:
    request = Request(url, method="HEAD", headers={"Accept": _KINDS})  # noqa: S310 - https, or http if the user sets it
    for name, value in headers.items():
        request.add_unredirected_header(name, value)  # another host must not get them
    with urlopen(request, timeout=SECONDS) as answer:  # noqa: S310 - as above
        digest = answer.headers.get("Docker-Content-Digest", "")
    return digest if re.fullmatch(_DIGEST, digest) else None


def _authorization(challenge: str, host: str, environment: Mapping[str, str]) -> Optional[str]:
    """The value of `Authorization` for a challenge, None for one of another kind; raises HTTPError if no token is given out."""
    kind, _, rest = challenge.partition(" ")
    who = _credentials(host, environment)
    if kind.lower() == "basic":
        return "Basic {}".format(who) if who else None
    parameters = dict(re.findall(r'(\w+)="([^"]*)"', rest))
    realm = parameters.pop("realm", "")
    if kind.lower() != "bearer" or urlsplit(realm).scheme not in ("https", "http"):
        return None
    request = Request("{}?{}".format(realm, urlencode(parameters)))  # noqa: S310 - checked above
    if who and (realm.startswith("https:") or _is_plain(environment)):
        request.add_unredirected_header("Authorization", "Basic {}".format(who))
    with urlopen(request, timeout=SECONDS) as answer:  # noqa: S310 - as above
        document = json.loads(answer.read(_MOST).decode("utf-8"))
    token = document.get("token") or document.get("access_token") if isinstance(document, dict) else None
    return "Bearer {}".format(token) if token else None


def _is_plain(environment: Mapping[str, str]) -> bool:
    """Whether registries are asked without TLS: the runtime's own variable."""
    settings = (environment.get("{}_NOHTTPS".format(name), "") for name in ("APPTAINER", "SINGULARITY"))
    return any(value.lower() in ("1", "t", "true", "y", "yes") for value in settings)


def _credentials(host: str, environment: Mapping[str, str]) -> Optional[str]:
    """User and password in base64: of the runtime's variables, else of its file or Docker's; None without any."""
    for name in ("APPTAINER_DOCKER", "SINGULARITY_DOCKER"):
        user, password = (environment.get("{}_{}".format(name, part)) for part in ("USERNAME", "PASSWORD"))
        if user and password:
            return base64.b64encode("{}:{}".format(user, password).encode()).decode()
    names = (host, "https://index.docker.io/v1/" if host.endswith("docker.io") else "https://{}".format(host))
    for known in _configurations(environment):
        for name in names:
            entry = known.get(name)
            if isinstance(entry, dict) and entry.get("auth"):
                return str(entry["auth"])
    return None


def _configurations(environment: Mapping[str, str]) -> Iterator[Dict[str, Any]]:
    """The credentials that the runtime and Docker keep, by registry."""
    own = os.path.expanduser("~")
    places = [os.path.join(own, name, "docker-config.json") for name in (".apptainer", ".singularity")]
    places.append(
        os.path.join(environment.get("DOCKER_CONFIG") or os.path.join(own, ".docker"), "config.json")
    )
    for place in places:
        try:
            with open(place, "rb") as file:
                known = json.loads(file.read(_MOST).decode("utf-8"))["auths"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if isinstance(known, dict):
            yield known
