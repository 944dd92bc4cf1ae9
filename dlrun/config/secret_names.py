"""Recognition of secrets by name (`HF_TOKEN`) or by form (credentials in URLs, tokens), and masking of them in text.

A value that expands on the node (`$TOKEN`, `{{ … }}`) or stands for one (`<token>`, `xxxx`) is not a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from dlrun.model.text import lazy_pattern

_WORDS = {
    "KEY", "KEYS", "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE",
    "CREDENTIAL", "CREDENTIALS", "APIKEY", "PAT", "AUTHORIZATION",
}  # fmt: skip
_ENDINGS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "APIKEY", "ACCESSKEY", "SECRETKEY", "PRIVATEKEY")
_REFERENCES = {"FILE", "PATH", "DIR", "DIRECTORY", "PER", "LENGTH", "LEN", "SIZE", "COUNT", "MAX", "NUM", "N"}
"""Words in names of files and numbers, which are not secrets (`TOKEN_FILE`, `MAX_TOKENS`)."""

_LIBRARIES = lazy_pattern(
    r"(NCCL|RCCL|UCX|UCC|FI|OMPI|PMIX|PRTE|I_MPI|MPICH|MV2|PSM2?|PSM3|CCL|MLSL|KMP|OMP|GOMP|GLOO|SLURM|PBS)_"
)
"""Prefixes of variables that are settings of libraries: their "keys" are not secrets."""


def looks_secret(name: str) -> bool:
    """True if a variable of this name usually holds a secret: HF_TOKEN, WANDB_API_KEY, pgPassword."""
    if _LIBRARIES.match(name):
        return False
    words = set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper().replace("-", "_").split("_"))
    if words & _REFERENCES:
        return False
    return bool(words & _WORDS) or any(word.endswith(_ENDINGS) for word in words)


_NAME = lazy_pattern(
    r"(?:(?<![A-Za-z0-9_-])|(?<=(?<![\w-])-)|(?<=(?<![\w-])--))([A-Za-z_][A-Za-z0-9_-]{0,127})[\"']?[ \t]{0,9}[:=][ \t]*(?=\S)"
)


def masked(line: str) -> str:
    """A line with recognised secrets masked, and everything after `NAME=` or `NAME:` for a name that looks like a secret."""
    line = without_secrets(line, same_length=True)
    for match in _NAME.finditer(line):
        if looks_secret(match[1]):
            return line[: match.end()] + stars(line[match.end() :])
    return line


def stars(text: str) -> str:
    """The text with every character but white space replaced by `*`."""
    return re.sub(r"\S", "*", text)


def is_setting(name: str) -> bool:
    """True if a variable of this name is a library's setting, whose value may be shown."""
    return _LIBRARIES.match(name) is not None


KeyParts = tuple[str | int, ...]
"""A path of keys and list indexes."""


def is_secret(path: KeyParts) -> bool:
    """True if the value at this path must never be shown: it is under `secrets`, or has the name of a secret."""
    if path[:1] in {("data",), ("sweep",)}:
        # Text corpora are often called `tokens`.
        return False
    return any(part == "secrets" or looks_secret(part) for part in path if isinstance(part, str))


def is_confidential(path: KeyParts) -> bool:
    """True if messages must not show the value at this path: a secret (`is_secret`) or any environment variable.

    Settings of libraries may be shown, because users need to see the faulty value.
    """
    if is_secret(path):
        return True
    for i in range(1, len(path)):
        if path[i - 1 : i + 1] == ("environment", "variables"):
            name = path[i + 1] if len(path) > i + 1 else None
            return not (isinstance(name, str) and is_setting(name))
    return False


class SecretSpan(NamedTuple):
    """Begin and end of a secret in a text, and what it is, for a message."""

    begin: int
    end: int
    kind: str


PASSWORD, SIGNATURE = "a user name or password in a URL", "a signature or token in a URL"
TOKEN, KEY, ARGUMENT, HEADER = "a token", "a private key", "the value of a secret", "an authorization header"

_URL = lazy_pattern(r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s\"'<>`\\]+")
# The second form: a password with a `/`, `?` or `#` that should have been percent-encoded; `host:80/x@y` has no password.
_USER = lazy_pattern(
    r"[^/?#]*@|[^/?#@:\[]*:(?!(?:\d{1,5}|\$\w+)(?:[/?#]|$)).*@",
)
_PARAMETER = lazy_pattern(
    r"(?:[?&;#]|%3F|%26|%23)([A-Za-z0-9_.%\[\]-]{1,100}?)(?:=|%3D)((?:(?!%26|%3F)[^&;#])*)", re.IGNORECASE
)
_END = lazy_pattern(r"[&;#]|%26")
_SIGNATURES = frozenset({
    "signature", "sig", "sign", "hmac", "jwt", "sas", "auth", "pass", "pwd", "hdnts", "hdnea", "hdntl", "policy", "verify",
    "x-amz-credential", "x-amz-security-token", "x-amz-signature", "x-goog-signature", "x-goog-credential", "awsaccesskeyid",
    "googleaccessid", "ossaccesskeyid", "key-pair-id", "q-signature", "q-ak",
})  # fmt: skip
"""Query parameters of presigned URLs: AWS S3 and CloudFront, Google, Azure (`sig`), Akamai, Alibaba, Tencent."""

_FORMS = (
    r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"  # GitHub
    r"|gl(?:pat|dt|rt|soat|ptt|cbt)-[A-Za-z0-9_.-]{16,}"  # GitLab
    r"|(?:hf|api_org)_[A-Za-z0-9]{20,}"  # Hugging Face
    r"|wandb_v\d_[A-Za-z0-9_-]{16,}"  # Weights & Biases
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"  # AWS
    r"|sk-(?:proj-|svcacct-|admin-|or-v1-|ant-[a-z0-9]+-)?[A-Za-z0-9_]{20,}[A-Za-z0-9_-]*"  # OpenAI, Anthropic and others
    r"|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}"  # Stripe
    r"|nvapi-[A-Za-z0-9_-]{20,}"  # NVIDIA NGC
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}"  # Slack
    r"|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}|GOCSPX-[A-Za-z0-9_-]{16,}"  # Google
    r"|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|dckr_pat_[A-Za-z0-9_-]{16,}|dapi[a-f0-9]{32}"
    r"|eyJ[A-Za-z0-9_-]{6,}\.eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]+"  # JSON web tokens (RFC 7519)
)
"""Prefixes of tokens, as their issuers document them for secret scanners."""

_TOKEN = lazy_pattern(rf"(?<![A-Za-z0-9_-])(?:{_FORMS})")
_PRIVATE = lazy_pattern(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)", re.DOTALL
)
_AUTHORIZATION = lazy_pattern(
    r"\b(?:proxy-)?authorization[\"']?\s*[:=,]\s*[\"']?(?:(?:bearer|basic|token|digest|negotiate)\s+|(?!(?:bearer|basic|token|digest|negotiate)\s))([^\s\"',]{4,})"
    r"|\bbearer\s+(?=[^\s\"']*\d)([A-Za-z0-9._~+/=-]{8,})",
    re.IGNORECASE,
)
_ARGUMENT = lazy_pattern(
    # A name after a space or comma has a value only as an option: `--token VALUE`, `"--token", "VALUE"`.
    r"(?<![A-Za-z0-9_.-])(?:(--?[A-Za-z_][A-Za-z0-9_.-]{0,80})[\"']?(?:,[ \t]*|[ \t]+)[\"']?(?![=:-])"
    r"|(-{0,2}[A-Za-z_][A-Za-z0-9_.-]{0,80})[\"']?(?:[ \t]*=[ \t]*|:)[\"']?"
    r"|([A-Za-z_][A-Za-z0-9_.-]{0,80})[\"']?[ \t]*:[ \t]+[\"']?(?=[^\s\"',]*\d))"
    r"([^\s\"',\[\]{}][^\s\"',\]}]*)"
)


def secrets_in(text: str) -> Iterator[SecretSpan]:
    """The secrets in a text that are recognised by their form, in any order; they may overlap."""
    if "://" in text or "%3A%2F%2F" in text:
        yield from _of_urls(text)
    if "PRIVATE KEY" in text:
        yield from (SecretSpan(*m.span(), KEY) for m in _PRIVATE.finditer(text))
    if len(text) < _SHORTEST:
        return
    yield from (
        SecretSpan(*m.span(), TOKEN) for m in _TOKEN.finditer(text) if not stands_for(m[0].lstrip("ghf_"))
    )
    for match in _AUTHORIZATION.finditer(text):
        group = 1 if match[1] else 2
        if not stands_for(match[group]):
            yield SecretSpan(*match.span(group), HEADER)
    for match in _ARGUMENT.finditer(text):
        if is_secret_argument(match[1] or match[2] or match[3], match[4]):
            yield SecretSpan(*match.span(4), ARGUMENT)


_SHORTEST = 12
"""Characters of the shortest text that can have a token, a header or an argument with its name."""


def _of_urls(text: str) -> Iterator[SecretSpan]:
    for url in _URL.finditer(text):
        scheme, _, rest = url[0].partition("://")
        start = url.start() + len(scheme) + 3
        user = _USER.match(rest)
        # A name without a password is a login name for ssh, and a token for a web server.
        if user is not None and (":" in user[0] or scheme.lower().endswith(("http", "https"))):
            name, colon, password = user[0].rpartition("@")[0].partition(":")
            if not stands_for(password if colon else name):
                yield SecretSpan(start, start + user.end() - 1, PASSWORD)
        last = 0
        for match in _PARAMETER.finditer(rest):
            if match.start() < last:
                continue
            if _is_signature(re.sub("%2d", "-", match[1], flags=re.IGNORECASE), match[2]):
                end = _END.search(rest, match.end())
                last = end.start() if end else len(rest)
                yield SecretSpan(start + match.start(2), start + last, SIGNATURE)


def _is_signature(name: str, value: str) -> bool:
    if stands_for(value):
        return False
    words = set(re.split(r"[-_.]", name.lower()))
    if name.lower() in _SIGNATURES or words & {"signature", "sig", "hmac", "jwt", "sas"}:
        return True
    return _strength(name) == 2 or (_strength(name) == 1 and _random(value))


_STRONG = lazy_pattern(
    r"(?:^|[-_.])(?:password|passwd|passphrase|pwd|secrets?|credentials?|apikey|pat)$"
    r"|(?:api|access|secret|private|auth|account|encryption|signing|license)[-_.]?key(?:[-_.]?id)?$"
    r"|(?:^|[-_.]|auth|access|hub|hf|api|bearer|session)token$"
)
_MARKERS = lazy_pattern(
    r"(?:pad|[be]os|sep|cls|unk|mask|stop|start|end|image|special|per|m(?:ax|in)|num|new|first|last|video|audio|text|ignore|by)"
    r"[-_.]?tokens?$"
)
"""Tokens of a language model."""
_WEAK = lazy_pattern(r"(?:^|[-_.])(?:key|keys|tokens)$")


def _strength(name: str) -> int:
    """2 if an argument or parameter of this name has a secret, 1 if its value decides, else 0."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.lstrip("-")).lower()
    if _MARKERS.search(plain) or name in ("PWD", "OLDPWD"):  # the shell's own: directories
        return 0
    return 2 if _STRONG.search(plain) else 1 if _WEAK.search(plain) else 0


def _random(value: str) -> bool:
    return re.fullmatch(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_+=-]{16,}", value) is not None


def is_secret_argument(name: str, value: str) -> bool:
    """True if `--api-key VALUE` or `API_KEY=VALUE` has a secret; numbers, paths and expansions are none."""
    strength = _strength(name)
    if not strength or stands_for(value) or value.startswith(("-", "/", "./", "../", "~")):
        return False
    if strength == 1:
        return _random(value)
    least = 4 if re.search(r"pass|pwd", name, re.IGNORECASE) else 8
    return len(value) >= least and re.fullmatch(r"[\d.,_]+", value) is None


_STANDS = lazy_pattern(
    r"|[\$\[]\S*|.*(?:\$\(|\$\{|\$[A-Za-z_]|\{\{|\}\}|%\().*|<.*>?|[xX*.…]+|true|false|none|null|yes|no|[01]|your[-_].*",
    re.DOTALL | re.IGNORECASE,
)


def stands_for(value: str) -> bool:
    """True if a value is empty, a switch, or stands for a value: `$TOKEN`, `{{ token }}`, `<token>`, `***`."""
    return _STANDS.fullmatch(value) is not None


def without_secrets(text: str, *, same_length: bool = False) -> str:
    """The text with `***` for each recognised secret; `same_length`: with as many stars as it has characters."""
    pieces, end = [], 0
    for begin, last, _ in sorted(secrets_in(text)):
        if begin >= end:
            pieces += [text[end:begin], stars(text[begin:last]) if same_length else "***"]
        elif last > end and same_length:
            pieces.append(stars(text[end:last]))
        end = max(end, last)
    return "".join([*pieces, text[end:]])
