"""Recognition of secrets by name (`HF_TOKEN`) or by form (credentials in URLs, tokens), and masking of them in text.

A value that expands on the node (`$TOKEN`, `{{ … }}`) or stands for one (`<token>`, `xxxx`) is not a secret.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from dlrun.model.text import lazy_pattern

_ANYWHERE = lazy_pattern(r"(?:TOKEN|SECRET|PASSWORD|CREDENTIAL)S?|PASSWD|PASSPHRASE|APIKEY|AUTHORIZATION")
_AT_THE_END = {"KEY", "KEYS", "PAT"}
_REFERENCES = {"FILE", "PATH", "DIR", "DIRECTORY", "PER", "LENGTH", "LEN", "SIZE", "COUNT", "MAX", "NUM", "N"}
"""Words in names of files and numbers, which are not secrets (`TOKEN_FILE`)."""
_ENDINGS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "APIKEY", "ACCESSKEY", "SECRETKEY", "PRIVATEKEY")
_AFTER = lazy_pattern(r"\d*|ID|VALUE|STRING|B64|BASE64|OLD|NEW|DEV|PROD|TEST|READ|WRITE|RO|RW")
"""Words after a key: `AWS_ACCESS_KEY_ID`, `API_KEY_2`."""

_LIBRARIES = lazy_pattern(
    r"(NCCL|RCCL|UCX|UCC|FI|OMPI|PMIX|PRTE|I_MPI|MPICH|MV2|PSM2?|PSM3|CCL|MLSL|KMP|OMP|GOMP|GLOO|SLURM|PBS)_"
)
"""Prefixes of variables that are settings of libraries: their "keys" are not secrets."""
_MARKERS = lazy_pattern(
    r"(?:pad|[be]os|sep|cls|unk|mask|stop|start|end|image|special|per|m(?:ax|in)|n(?:um)?|total|count|train(?:ing)?|batch|new|first|last"
    r"|prefix|suffix|video|audio|text|ignore|by|of)[-_.]?tokens?$"
)
"""Tokens of a language model, and their number: `PAD_TOKEN`, `MAX_TOKENS`, `TOTAL_TOKENS`."""


def looks_secret(name: str) -> bool:
    """True if a variable of this name usually holds a secret: HF_TOKEN, WANDB_API_KEY, pgPassword."""
    if _LIBRARIES.match(name) or _MARKERS.search(plain := _plain(name)):
        return False
    words = re.split(r"[-_.]", plain.upper())
    if not _REFERENCES.isdisjoint(words):
        return False
    while len(words) > 1 and _AFTER.fullmatch(words[-1]):
        del words[-1]
    last = words[-1].rstrip("0123456789")
    return any(map(_ANYWHERE.fullmatch, words)) or last in _AT_THE_END or last.endswith(_ENDINGS)


def _plain(name: str) -> str:
    """A name in lower case with `_` between its words: `apiKey` is `api_key`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.lstrip("-")).lower()


def holds_secret(name: str, value: str) -> bool:
    """True if a variable has the name of a secret, and its value may be one: not a count, path or switch."""
    is_count = _COUNT.fullmatch(value) and not re.search(r"pass|pwd", name, re.IGNORECASE)
    return looks_secret(name) and not (is_count or _SWITCH.fullmatch(value.strip()) or _PATH.match(value))


_COUNT = lazy_pattern(r"[+-]?[\d.,_]+(?:e[+-]?\d+)?[kmbtg]?", re.IGNORECASE)
_SWITCH = lazy_pattern(r"|true|false|none|null|yes|no|[01]", re.IGNORECASE)
# A random value may begin with a slash, but hardly with a short name and another slash.
_PATH = lazy_pattern(r"(?:~|\.{1,2})/|/[A-Za-z][\w.-]{0,15}/")
_NAME = lazy_pattern(
    r"(?:(?<![A-Za-z0-9_-])|(?<=(?<![\w-])-)|(?<=(?<![\w-])--))([A-Za-z_][A-Za-z0-9_-]{0,127})[\"']?[ \t]{0,9}[:=][ \t]*(?=\S)"
)


def masked(line: str) -> str:
    """A line with recognised secrets masked, and everything after `NAME=` or `NAME:` for a name that looks like a secret."""
    line = without_secrets(line, same_length=True)
    for match in _NAME.finditer(line):
        value = _VALUE.match(line, match.end())
        if looks_secret(match[1]) and (value is None or holds_secret(match[1], value[0])):
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

# With one slash: an address that was taken for a path.
_URL = lazy_pattern(
    r"(?<![A-Za-z0-9+.-])(?:[A-Za-z][A-Za-z0-9+.-]{0,30}://|(?:https?|s3|ftps?|ssh):/(?!/))[^\s\"'<>`\\]+"
)
# The second form: a password with a `/`, `?` or `#` that should have been percent-encoded; `host:80/x@y` has no password.
_USER = lazy_pattern(
    r"[^/?#]*@|[^/?#@:\[]*:(?!(?:\d{1,5}|\$\w+)(?:[/?#]|$)).*@",
)
_SLASHES = lazy_pattern("(://?)")
_COLON, _SLASH, _AT = "(?::|%(?:25)*3A)", "(?:/|%(?:25)*2F)", "(?:@|%(?:25)*40)"
"""Also as a URL has them that was percent-encoded, perhaps repeatedly, for another URL."""
_NAME_CHARACTER = rf"(?:(?!{_COLON})[\w.%+~$-])"
_PASSWORD_CHARACTER = rf"(?:(?!{_AT}|{_COLON}|{_SLASH})[^\s\"'`,;<>()\\])"
_ENCODED_USER = lazy_pattern(
    rf"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]{{0,30}}){_COLON}{_SLASH}{{2}}"
    rf"({_NAME_CHARACTER}{{0,100}})(?:{_COLON}({_PASSWORD_CHARACTER}{{1,200}}))?(?={_AT})",
    re.IGNORECASE,
)
# `user:password@host:/path` and the like. What is before a `:` is not a user if it is a number (`1:ncpus@x`), a kind of address
# (`mailto:me@x`) or a dependency (`afterok:12@x`), and after an image's tag is its digest (`torch:2.1@sha256:…`).
_PLAIN_USER = lazy_pattern(
    rf"(?<![\w.%+~@:/\\-])(?!\d+{_COLON}|(?:after|before)[a-z]{{0,12}}:|on:|git:|(?:mailto|e-?mail|mail|to|from|cc|author|contact|ssh|scp"
    rf"|sftp|rsync|https?|ftp|ur[li]|host|server|address|remote|source|src|dst|dest|target):)"
    rf"({_NAME_CHARACTER}{{1,100}}{_COLON}(?!git{_AT}|\d{{1,5}}(?:{_AT}|,))({_PASSWORD_CHARACTER}{{2,200}})){_AT}"
    rf"(?!sha(?:256|512):)(?:\[[\da-f:.]{{2,45}}\]|(?:\d{{1,3}}\.){{3}}\d{{1,3}}|[a-z][a-z\d.-]{{0,250}})(?![\w%])"
    rf"({_COLON}(?:{_SLASH}|~|\.|\d{{2,5}}(?!\w)))?",
    re.IGNORECASE,
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

_AFTER_PART = {
    "gh": r"[pousr]_[A-Za-z0-9_]{20,}[A-Za-z0-9_.-]*", "github_pat_": r"[A-Za-z0-9_]{20,}",
    "gl": r"(?:(?:pat|dt|rt|rtr|soat|ptt|cbt|oas|ft|imt|agent|ffct|wt)-[A-Za-z0-9_.-]{16,}|(?:sa|c)_[A-Za-z0-9_=]{30,})",
    "hf_": r"[A-Za-z0-9]{20,}", "api_org_": r"[A-Za-z0-9]{20,}", "fw_": r"(?=[A-Za-z]*\d)[A-Za-z0-9]{20,}",
    "wandb_v": r"\d_[A-Za-z0-9_-]{16,}", "AKIA": r"[A-Z0-9]{16}(?![A-Z0-9])", "ASIA": r"[A-Z0-9]{16}(?![A-Z0-9])",
    "ABSK": r"[A-Za-z0-9+/]{60,}={0,2}", "bedrock-api-key-": r"[A-Za-z0-9+/=]{20,}", "dckr_": r"[op]at_[A-Za-z0-9_-]{16,}",
    "sk-": r"(?:(?:proj|svcacct|admin|or-v1|ant-[a-z0-9]+)-(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{20,}"  # OpenAI, OpenRouter, Anthropic
    r"|(?:proj-|svcacct-|admin-|ant-[a-z0-9]+-)?[A-Za-z0-9_]{20,}[A-Za-z0-9_-]*)",  # also of others with OpenAI's interface
    "gsk_": r"[A-Za-z0-9]{40,}", "xai-": r"[A-Za-z0-9]{40,}", "r8_": r"[A-Za-z0-9]{37}", "pplx-": r"[A-Za-z0-9]{40,}",
    **dict.fromkeys(("sk_", "rk_", "pk_"), r"(?:live|test)_[A-Za-z0-9]{16,}"), "tgp_v1_": r"[A-Za-z0-9_-]{20,}",
    "whsec_": r"[A-Za-z0-9]{24,}", "nvapi-": r"[A-Za-z0-9_-]{20,}", "rpa_": r"[A-Za-z0-9]{40,}", "KGAT_": r"[a-f0-9]{32}",
    "xox": r"[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}", "xapp-": r"\d-[A-Za-z0-9-]{20,}", "AIza": r"[A-Za-z0-9_-]{30,}",
    "ya29.": r"[A-Za-z0-9_-]{16,}", "GOCSPX-": r"[A-Za-z0-9_-]{16,}", "1//0": r"[A-Za-z0-9_-]{40,}",
    "AQ.A": r"[A-Za-z0-9_-]{40,}", "npm_": r"[A-Za-z0-9]{30,}", "pypi-": r"[A-Za-z0-9_-]{30,}",
    "dapi": r"[a-f0-9]{32}(?:-\d)?", "hv": r"[bsr]\.[A-Za-z0-9_-]{20,}", "pul-": r"[a-f0-9]{40}", "lin_api_": r"[A-Za-z0-9]{30,}",
    "dp.": r"[a-z]{2,5}\.[A-Za-z0-9]{40,}", "SG.": r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}", "AGE-SECRET-KEY-1": r"[A-Z0-9]{40,}",
    **dict.fromkeys(("dop_v1_", "doo_v1_", "dor_v1_"), r"[a-f0-9]{64}"), "shp": r"(?:at|ca|pa|ss)_[a-f0-9]{32}",
    "figd_": r"[A-Za-z0-9_-]{30,}", "ntn_": r"[A-Za-z0-9]{40,}", **dict.fromkeys(("ATATT3", "ATCTT3"), r"[A-Za-z0-9_=-]{60,}"),
    "sbp_": r"[a-f0-9]{40}", "sb_secret_": r"[A-Za-z0-9_-]{20,}", "Q~": r"[A-Za-z0-9_~.-]{31,34}",  # Microsoft Entra
    ".atlasv1.": r"[A-Za-z0-9_=-]{40,}", ":AA": r"[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])",  # Terraform, Telegram
    "eyJ": r"(?:[A-Za-z0-9_-]{6,}\.eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]+|hcGlfYWRkcmVzcyI6[A-Za-z0-9+/=]{20,})",  # also Neptune
}  # fmt: skip
"""Fixed part of a token -> what follows, as issuers document them: GitHub, GitLab, Grafana, Hugging Face, AWS, OpenAI …"""
_BEGIN = r"(?<![A-Za-z0-9_-])"
_BEFORE_PART = {"Q~": rf"{_BEGIN}[A-Za-z0-9_~.]{{3}}\d", ".atlasv1.": rf"{_BEGIN}[A-Za-z0-9]{{14}}",
                ":AA": r"(?<!\d)\d{8,10}"}  # fmt: skip


@cache
def _tokens(parts: tuple[str, ...]) -> re.Pattern[str]:
    """The tokens with one of these parts: the pattern of all takes 2 ms to compile."""
    return re.compile("|".join(_BEFORE_PART.get(p, _BEGIN) + re.escape(p) + _AFTER_PART[p] for p in parts))


_PRIVATE = lazy_pattern(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)", re.DOTALL
)
_SCHEMES = r"(?:bearer|basic|token|digest|negotiate|apikey|key|ntlm)"
_HEADER = lazy_pattern(
    rf"\b(?:proxy-)?authorization[\"']?\s*[:=,]\s*[\"']?(?:{_SCHEMES}\s+([^\s\"',]{{4,}})"
    rf"|aws4-hmac-sha256\s+([^\"'\n]{{4,}})"
    rf"|(?!{_SCHEMES}\s)[a-z][a-z0-9-]{{0,30}}[ \t]+(?=[^\s\"']*\d)([^\s\"',]{{8,}})|(?!{_SCHEMES}\s)([^\s\"',]{{4,}}))"
    r"|\bbearer\s+(?=[^\s\"']*\d)([A-Za-z0-9._~+/=-]{8,})"
    r"|\bcookie[\"']?[ \t]*:[ \t]*[\"']?([^\s\"'=]{1,100}=[^\"'\n]{4,})",
    re.IGNORECASE,
)
_PASSWORD_OPTION = lazy_pattern(
    r"\b(?:curl|wget|https?|aria2c)\b[^\n|;&]{0,300}?[ \t](?:-u|--user|-U|--proxy-user|-b|--cookie|--auth|-a)"
    r"(?:[ \t]{1,9}|=)?[\"']?[^\s:=\"'$/-][^\s:=\"'$/]{0,100}[:=]([^\s\"']+)"
    r"|\bsshpass\b[^\n|;&]{0,100}?[ \t]-p[ \t]{0,9}[\"']?([^\s\"',\]][^\s\"']*)"
    r"|\b(?:mysql|mariadb)[a-z-]{0,20}\b[^\n|;&]{0,300}?[ \t]-p[\"']?([^\s\"',\]][^\s\"']*)"
    r"|\b(?:docker|podman|nerdctl|buildah|skopeo|apptainer|singularity|helm|oras|crane)\b[^\n|;&]{0,200}?\blogin\b[^\n|;&]{0,200}?"
    r"[ \t]-p[ \t]{1,9}[\"']?([^\s\"']+)"
    r"|\bwandb\b[^\n|;&]{0,100}?\blogin[ \t(][^\n|;&]{0,100}?(?<![A-Za-z0-9])([a-f0-9]{40})(?![A-Za-z0-9])"
    r"|\bmachine\s+\S{1,255}\s+login\s+\S{1,255}\s+password\s+(\S+)"
)
"""Passwords and keys after options that have no name of a secret, and in a line of `~/.netrc`."""
_OPTION_WORDS = ("curl", "wget", "http", "aria2c", "sshpass", "mysql", "mariadb", "login")
_HOOK = lazy_pattern(
    r"(?:hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks|\.webhook\.office\.com/webhookb2"
    r"|api\.telegram\.org/(?=bot))/?([A-Za-z0-9_@:/.-]{20,})"
)
"""Addresses with which everyone can send messages to a channel."""

_ARGUMENT = lazy_pattern(
    # A name after a space or comma has a value only as an option: `--token VALUE`, `"--token", "VALUE"`.
    r"(?<![A-Za-z0-9_.-])(?:(--?[A-Za-z_][A-Za-z0-9_.-]{0,80})[\"']?(?:,[ \t]*|[ \t]+)[\"']?(?![=:-])"
    r"|(-{0,2}[A-Za-z_][A-Za-z0-9_.-]{0,80})[\"']?(?:[ \t]*=[ \t]*|:)[\"']?"
    r"|([A-Za-z_][A-Za-z0-9_.-]{0,80})[\"']?[ \t]*:[ \t]+[\"']?(?=[^\s\"',]*\d))"
    r"(?=[^\s\"',\[\]{}])"
)
_VALUE = lazy_pattern(r"[^\s\"',\[\]{}][^\s\"',\]}]*")


def secrets_in(text: str) -> Iterator[SecretSpan]:
    """The secrets in a text that are recognised by their form, in any order; they may overlap."""
    if ":/" in text:
        yield from _of_urls(text)
    if "@" in text or "%" in text:
        yield from _of_users(text)
    if "PRIVATE KEY" in text:
        yield from (SecretSpan(*m.span(), KEY) for m in _PRIVATE.finditer(text))
    if len(text) < _SHORTEST:
        return
    if parts := tuple(part for part in _AFTER_PART if part in text):
        tokens = (m for m in _tokens(parts).finditer(text) if not stands_for(m[0].lstrip("ghf_")))
        yield from (SecretSpan(*m.span(), TOKEN) for m in tokens)
    if any(map(text.lower().__contains__, ("authorization", "bearer", "cookie"))):
        yield from _of_groups(_HEADER, text, HEADER)
    if "hook" in text or "telegram" in text:
        yield from _of_groups(_HOOK, text, TOKEN)
    if any(word in text for word in _OPTION_WORDS):
        yield from _of_groups(_PASSWORD_OPTION, text, ARGUMENT)
    for match in () if set(" \t,=:").isdisjoint(text) else _ARGUMENT.finditer(text):
        # The value of another option may be an argument itself: `-x HF_TOKEN=VALUE`.
        name = match[1] or match[2] or match[3]
        value = _VALUE.match(text, match.end()) if _strength(name) else None
        if value is not None and is_secret_argument(name, value[0]):
            yield SecretSpan(*value.span(), ARGUMENT)


def secret_words(words: Sequence[str]) -> set[int]:
    """The indexes of the words of a command that are secrets by what is before them: `--api-key VALUE`, `sshpass -p VALUE`."""
    indexes = {
        index
        for index in range(1, len(words))
        if words[index - 1].startswith("-") and is_secret_argument(words[index - 1], words[index])
    }
    if not set(words).isdisjoint(_OPTION_WORDS):
        ends = [*accumulate(len(word) + 1 for word in words)]
        spans = _of_groups(_PASSWORD_OPTION, " ".join(words), ARGUMENT)
        indexes |= {bisect_right(ends, span.begin) for span in spans}
    return indexes


def _of_groups(pattern: re.Pattern[str], text: str, kind: str) -> Iterator[SecretSpan]:
    """The group of each match, unless it only stands for a value."""
    for match in pattern.finditer(text):
        group = match.lastindex or 0
        if not stands_for(match[group]):
            yield SecretSpan(*match.span(group), kind)


_SHORTEST = 12
"""Characters of the shortest text that can have a token, a header or an argument with its name."""


def _of_urls(text: str) -> Iterator[SecretSpan]:
    for url in _URL.finditer(text):
        scheme, slashes, rest = _SLASHES.split(url[0], maxsplit=1)
        start = url.start() + len(scheme) + len(slashes)
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


def _of_users(text: str) -> Iterator[SecretSpan]:
    """Users with passwords of addresses that have no scheme, or were percent-encoded."""
    for match in _ENCODED_USER.finditer(text):
        token = match[2] if match[1].lower().startswith("http") else ""
        if not stands_for(token if match[3] is None else match[3]):
            yield SecretSpan(match.start(2), match.end(), PASSWORD)
    for match in _PLAIN_USER.finditer(text):
        # Only a path or a port after the host shows that it is one; else the password must look like one.
        if not stands_for(match[2]) and (match[3] or re.fullmatch(r"(?=.*\d)(?=.*[A-Za-z]).{8,}", match[2])):
            yield SecretSpan(*match.span(1), PASSWORD)


def _is_signature(name: str, value: str) -> bool:
    if stands_for(value):
        return False
    words = set(re.split(r"[-_.]", name.lower()))
    if name.lower() in _SIGNATURES or words & {"signature", "sig", "hmac", "jwt", "sas"}:
        return True
    return _has_secret(max(_strength(name), 2 if name.lower() in _OPEN else 0), value)


_OPEN = frozenset({"code", "ticket"})
"""Query parameters that may open a resource: of Azure Functions, of file services."""
_STRONG = lazy_pattern(
    r"(?:^|[-_.])(?:password|passwd|passphrase|pwd|secrets?|credentials?|apikey|pat)$"
    r"|(?:api|access|secret|private|auth|account|encryption|signing|license)[-_.]?key(?:[-_.]?id)?$"
    r"|(?:^|[-_.]|auth|access|hub|hf|api|bearer|session)token$"
)
_WEAK = lazy_pattern(r"(?:^|[-_.])(?:key|keys|tokens)$")
_SOUNDS = lazy_pattern(
    r"(?:^|[-_.])(?:auth|pass(?:code)?|pw|pin|creds?|login|session(?:[-_.]?id)?|access|wandb|cookie|api)$"
)
"""Names whose values are secrets only if they are keys of hexadecimal digits, such as those of Weights & Biases."""
_PARTS = ("pass", "pw", "secret", "cred", "key", "pat", "token", "auth", "pin", "login", "session", "access",
          "wandb", "cookie", "api")  # fmt: skip
_HEX = lazy_pattern(r"(?=[a-f]*[0-9])(?=[0-9]*[a-f])[a-f0-9]{32,}", re.IGNORECASE)


def _strength(name: str) -> int:
    """3 if an argument or parameter of this name has a secret, 2 if it is random, 1 if it is a hexadecimal key, else 0."""
    plain = _plain(name)
    if not any(part in plain for part in _PARTS) or _MARKERS.search(plain) or name in ("PWD", "OLDPWD"):
        return 0  # also the shell's own: directories
    return 3 if _STRONG.search(plain) else 2 if _WEAK.search(plain) else 1 if _SOUNDS.search(plain) else 0


def _has_secret(strength: int, value: str) -> bool:
    """True if a value is a secret, for the `_strength` of its name."""
    if strength == 2:
        return re.fullmatch(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_+=-]{16,}", value) is not None
    return strength == 3 or (strength == 1 and _HEX.fullmatch(value) is not None)


def is_named_key(path: KeyParts, text: str) -> bool:
    """True if the value at this path of a spec is a hexadecimal key, by its name: `sweep: {wandb_key: [0123abcd…]}`."""
    names = [part for part in path if isinstance(part, str)] if _HEX.fullmatch(text) else []
    return bool(names) and names[0] not in ("data", "secrets") and _strength(names[-1]) > 0


def is_secret_argument(name: str, value: str) -> bool:
    """True if `--api-key VALUE` or `API_KEY=VALUE` has a secret; numbers, paths and expansions are none."""
    elsewhere = ("-", "/", "./", "../", "~")
    if not _has_secret(_strength(name), value) or stands_for(value) or value.startswith(elsewhere):
        return False
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
