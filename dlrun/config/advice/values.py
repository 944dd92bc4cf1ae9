"""What to write in place of a value that a key of the spec does not take, by the key and what people write there."""

# ruff: noqa: E501 - tables, with one help line an entry
from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from dlrun.config.nodes import ListNode, MapNode, Node, ScalarNode
from dlrun.config.secret_names import is_confidential, looks_secret, masked
from dlrun.model.text import lazy_pattern

Path: TypeAlias = tuple[str | int, ...]
_Rules: TypeAlias = Sequence[tuple[str, str]]
"""Patterns of whole values (without case) and the help for each, with the pattern's groups as `\\1`."""

_TRUE, _FALSE = "true|yes|on|1|y", "false|no|off|0|n"
_WATCH = (
    (_TRUE, "write `warn`, or `fail` to end the job on a difference"),
    ("strict|error|abort|stop", "write `fail`"),
    (_FALSE, "write `off`"),
)
_REQUEUE = (
    (f"{_TRUE}|restart|retry|rerun|again|resubmit", "write `requeue`"),
    (f"{_FALSE}|abort|fail|ignore|end|never", "write `stop`"),
)
_SCALARS: dict[str, _Rules] = {
    "resources.nodes": (
        ("auto|max|all|any", "write a number, such as `2`: `dlrun scale` runs a job at several sizes"),
        (r"\$.*|\{\{.*\}\}|<.*>", "write a number; to give it when you submit: `--set resources.nodes=4`"),
        (r"([0-9]+)\s*[x*×]\s*([0-9]+)", r"write `nodes: \1` and `ranks_per_node: \2`"),
    ),
    "resources.gpus_per_node": (
        (_FALSE + "|none", "write `0`"),
        (_TRUE, "write `auto`, or the number"),
        (r"0?\.[0-9]+|1/[0-9]+", "GPUs are whole: write `1`; `ranks_per_node` ranks may share it"),
        (r"([0-9]+)\s*[x*×]\s*([A-Za-z][\w.-]*)", r"write `\2:\1`"),
        (r"([A-Za-z][A-Za-z-]*[0-9]+\w*?)\s*[x*×]\s*([0-9]+)", r"write `\1:\2`"),
        (r"\[?\s*[0-9]+(?:\s*[,;]\s*[0-9]+)+\s*\]?", "write the number of GPUs; each rank gets its own"),
        (r"(?!all$|auto$|any$|max$)([A-Za-z]+[0-9][\w.-]*)", r"write the number with the type, such as `\1:4`"),
    ),
    "resources.ranks_per_node": ((r"(?:n?gpus?(?:_per_node)?|.*per[ _]gpu|all gpus)", "write `auto`: one rank for each GPU"),),
    "resources.memory_per_node": (
        ("max|full|everything|0", "write `all` for the whole node"),
        (r"half|[0-9.]+\s*%", "write a size, such as `64GiB`, or `all`; `dlrun site show` has the memory of a node"),
        (r"[0-9.]+\s*[KMGT]i?bits?", "write bytes, such as `64GiB`"),
        (r"\{\{.*", "write the size itself: `{{ }}` is for the command and the variables"),
    ),
    "resources.node_local": (("all|max|auto|yes|true", "write a size, such as `200GB`"),),
    "resources.spare_nodes": ((r"[0-9.]+\s*%", "write a number of nodes, such as `1`"),),
    "resources.exclusive": (
        ("always|nodes?|whole|exclusive|user|full", "write `true`"), ("shared?|never|oversubscribe|none", "write `false`"),
    ),
    "batch_per_rank": (
        ("auto", "write the number of samples that fit on one GPU, such as `32`"),
        (r"([0-9]+)k", r"write `\g<1>000`"),
        (r"[0-9]+\.[0-9]+", "write a whole number of samples"),
    ),
    "placement.bind": ((f"{_TRUE}|cores?|cpus?|numa|sockets?|threads?|compact|close|spread", "write `plan`: each rank has the cores next to its GPU"),
                       (_FALSE, "write `none`")),
    "placement": (("compact|close|spread|scatter|cores?|numa|true|yes|auto", "leave it out: by default each rank has the cores next to its GPU"),),
    "placement.threads": (("many|all|max", "write `auto`: one thread for each core of the rank"),),
    "hang": ((_TRUE, "write a time without output or CPU use, such as `10m`"), (_FALSE, "leave the key out")),
    "verify": _WATCH,
    "fabric_check": _WATCH,
    "caches": ((f"{_TRUE}|node|local", "write `auto`"), (_FALSE, "write `off`")),
    "code": ((_TRUE, "write `record`"), ("snap.*|save|copy|archive", "write `snapshot`"), (_FALSE, "write `off`"), ("fail|error", "write `strict`")),
    "on_failure.requeue": (("always|unlimited|forever|inf|infinite|infinity|max", "write a number, such as `10`"),),
    **{f"on_failure.{name}": _REQUEUE for name in ("timed_out", "preempted", "node_failed", "out_of_memory", "hang", "user_error")},
    "checkpoint": (
        (r"(?:SIG)?(USR1|USR2|TERM|HUP|INT)", r"write `checkpoint: {signal: \1}`"),
        (_TRUE, "write `checkpoint: {signal: USR1}`, the signal that the program handles"),
        (r"(\S*[/.]\S*)", r"write `checkpoint: {path: \1}`"),
    ),
    "checkpoint.signal": (
        ("10|(?:SIG)?USR", "write `USR1`"), ("12", "write `USR2`"), ("15", "write `TERM`"), ("1", "write `HUP`"), ("2", "write `INT`"),
        ("(?:SIG)?(?:KILL|STOP)|9|19", "no program can handle this one: write `USR1`, or `TERM`"),
    ),
    "environment.container.runtime": (
        ("singularity(?:ce|-ce)?", "write `apptainer`: the job takes the one that is there"),
        ("pyxis|nvidia", "write `enroot`"),
        ("docker|podman|podman-hpc|shifter|charliecloud|sarus", "write `apptainer`; it runs Docker images: `image: docker://NAME`"),
    ),
    "environment": (
        (r"module load (\S+)", r"write `environment: {modules: [\1]}`"),
        (r".*(?:activate|conda|source)\s.*", "write `environment: {venv: …}` or `{conda: …}`"),
        (r"(\w+)=.*", r"write `environment: {variables: {\1: …}}`"),
        (r"(?:\./|~/|/)?\S*env\S*", "write `environment: {venv: …}` or `{conda: …}`"),
    ),
    "data.*.strategy": (
        ("local|node[-_]?local|nodes?|scratch|ssd|nvme|tmp|stage|staged|true|yes|ram", "write `copy`: each node has the whole data set"),
        ("none|links?|symlink|shared|direct|mount|no|false", "write `in_place`: it is read where it is"),
        ("split|partition|distribute", "write `shard`: each node has a part"),
        ("tar|zip|archive", "write `pack`"),
    ),
    "after.*.when": (("success|succeeded|afterok|done|complete(?:d)?", "write `ok`"), ("fail|failed|failure|afternotok|error", "write `not_ok`"),
                     ("always|end|ended|afterany", "write `any`")),
    "framework": ((r"([A-Za-z_]+)(?:[ =<>~]+v?[0-9].*|[ ]*\(.*\))", r"write `framework: \1`; versions are those of the environment"),),
    "launcher": ((r"(srun|openmpi|hydra|intelmpi|pals|ibrun|flux|ssh)\s+-.*", r"write `launcher: \1`; its options are `launcher.options` of the site profile"),),
    "roles.*.ready": (
        ("https?", "write `ready: {http: /health}`, the path that answers when the program is ready"),
        ("true|yes|port|tcp|listen(?:ing)?", "write `ready: {port: true}`"),
        (r"[0-9].*", "write what shows that it is ready, such as `ready: {port: true}`"),
    ),
    "roles.*.ready.port": (("[0-9]+", "write `port: true`: dlrun chooses the port, which is `{{ role.NAME.port }}` in a command"),),
    "environment.conda": ((r"conda activate (\S+)", r"write `conda: \1`"),),
}  # fmt: skip
"""Key -> what people write there and does not fit -> help."""
_TIMES = (
    (r"([0-9]+)h([0-9]{1,2})", r"write `\1h\2m`"),
    (r"([0-9]+):([0-9]{2}:[0-9]{2}:[0-9]{2})", r"write `\1-\2`"),
    (r"([0-9]+(?::[0-9]{2}){2})\s*h(?:ours?|rs?)?", r"write `\1`"),
    (r"([0-9]+),([0-9]+)\s*h(?:ours?|rs?)?", r"write `\1.\2h`"),
    (r"(?:half an?|1/2|½) hour", "write `30m`"),
    (r"an? hour", "write `1h`"),
    (r"an? (?:day|night)|overnight", "write `24h`"),
    (r"(?:1|a|one)\s*(?:weeks?|wks?|w)", "write `7d`"),
    (r"(?:2|two)\s*(?:weeks?|wks?|w)", "write `14d`"),
)  # fmt: skip
_DURATIONS = ("resources.walltime", "hang", "checkpoint.before_end", "results.before_end")
_OVERFULL = lazy_pattern(r"([0-9]{1,3}):([0-9]{2}):([0-9]{2})")
"""A clock whose minutes or seconds may exceed 59."""


def instead(path: Path, node: Node) -> str:
    """Help for a value of a spec that its key does not take; empty if what is meant is not known."""
    if is_confidential(path):
        return _secret(path, node)
    key = ".".join("*" if _is_own(path, n) else str(part) for n, part in enumerate(path))
    if isinstance(node, ScalarNode):
        return "" if masked(node.text) != node.text else _scalar(key, node.text.strip())
    return _FORMS[key](node) if key in _FORMS else _parameter(path, node)


def _is_own(path: Path, index: int) -> bool:
    """Whether a part of a path is the user's name of something, or a number."""
    return isinstance(path[index], int) or (
        index == 1 and path[0] in ("data", "after", "sweep", "metrics", "roles")
    )


def _scalar(key: str, text: str) -> str:
    for pattern, help_ in (*_SCALARS.get(key, ()), *(_TIMES if key in _DURATIONS else ())):
        if match := re.fullmatch(pattern, text, re.IGNORECASE):
            return match.expand(help_)
    if key in _DURATIONS and (clock := _OVERFULL.fullmatch(text)):
        hours, minutes, seconds = map(int, clock.groups())
        hours, minutes = hours + (minutes + seconds // 60) // 60, (minutes + seconds // 60) % 60
        return f"write `{hours:02}:{minutes:02}:{seconds % 60:02}`"
    return ""


def _texts(node: Node) -> list[str]:
    items = node.items if isinstance(node, ListNode) else ()
    return [scalar.text for scalar in items if isinstance(scalar, ScalarNode)]


def _first(node: Node, *names: str) -> str | None:
    """The text of the first of some keys that a mapping has."""
    for name in names:
        if isinstance(node, MapNode) and isinstance(value := node.get(name), ScalarNode):
            return value.text
    return None


def _sizes(node: Node) -> str:
    if (hosts := _texts(node)) and not all(re.fullmatch(r"[0-9]+", name) for name in hosts):
        return f"write `nodes: {len(hosts)}`, and the names as `hosts: [{', '.join(hosts[:3])}{', …' * (len(hosts) > 3)}]`"
    return (
        "a job has one size: `dlrun scale` runs it at several (docs/guide/scaling.md)"
        if len(_texts(node)) > 1
        else ""
    )


def _batches(node: Node) -> str:
    sizes = ", ".join(_texts(node))
    if len(_texts(node)) < 2:
        return ""
    return f"a job has one: for several write `sweep: {{batch: [{sizes}]}}`, with `{{{{ batch }}}}` in the command"


def _gpus(node: Node) -> str:
    return (
        f"write their number, `{len(_texts(node))}`: each rank gets its own" if len(_texts(node)) > 1 else ""
    )


def _features(node: Node) -> str:
    names = _texts(node)
    return (
        f"write `constraint: {'&'.join(names)}` for nodes with all of them, or `|` for one of them"
        if len(names) > 1
        else ""
    )


def _walltime(node: Node) -> str:
    if isinstance(node, MapNode):
        parts = {
            name[0]: _first(node, name)
            for name in node.entries
            if re.fullmatch(r"(?:day|hour|min(?:ute)?|sec(?:ond)?)s?", name)
        }
        if parts and all(parts.values()):
            return f"write `walltime: {''.join(f'{parts[unit]}{unit}' for unit in 'dhms' if unit in parts)}`"
    return ""


def _framework(node: Node) -> str:
    name = _first(node, "name", "type", "framework")
    return f"write `framework: {name}`" if name else ""


def _modules(node: Node) -> str:
    """`{gcc: 13}` as modules with versions."""
    if not isinstance(node, MapNode):
        return ""
    names = [f"{name}/{value}" if (value := _first(node, name)) else name for name in node.entries]
    return f"write `modules: [{', '.join(names)}]`" if names else ""


def _environment(node: Node) -> str:
    """Lines of a shell, or `NAME=value`, in place of the mapping."""
    written = _texts(node)
    loads = [match[1] for text in written if (match := re.fullmatch(r"module (?:load|add) (\S+)", text))]
    names = [match[1] for text in written if (match := re.fullmatch(r"(?:export )?([A-Za-z_]\w*)=.*", text))]
    if written and len(loads) == len(written):
        return f"write `environment: {{modules: [{', '.join(loads)}]}}`"
    if written and len(names) == len(written):
        return f"write `environment: {{variables: {{{', '.join(f'{name}: …' for name in names)}}}}}`"
    return "write `environment: {setup: ['…']}` for lines of a shell" if written else ""


def _sweep(node: Node) -> str:
    """A list of points, or of values."""
    items = node.items if isinstance(node, ListNode) else ()
    if items and all(isinstance(item, MapNode) for item in items):
        return "write the list under `list:`, as in `sweep: {list: [{…}, {…}]}`"
    return ""


def _command(node: Node) -> str:
    if program := _first(node, "program", "executable", "script", "name", "cmd"):
        return f"write the words in a list, `command: [{program}, …]`"
    names = list(node.entries) if isinstance(node, MapNode) else []
    rest = f", {_first(node, names[0])}" if len(names) == 1 and _first(node, names[0]) else ", …"
    return f"write the words in a list, `command: [{names[0]}{rest}]`" if names else ""


def _words(node: Node) -> str:
    return (
        "write its words in the list of `command` itself, without brackets around them"
        if _texts(node)
        else ""
    )


def _run(node: Node) -> str:
    words = _texts(node)
    return (
        f"write a list of arguments as `command: [{', '.join(words[:3])}{', …' if len(words) > 3 else ''}]`"
        if words
        else ""
    )


def _after(node: Node) -> str:
    return (
        "write it in a list: `after: [{job: …, when: …}]`"
        if isinstance(node, MapNode) and node.get("job") is not None
        else ""
    )


_FORMS: dict[str, Callable[[Node], str]] = {
    "resources.nodes": _sizes, "batch_per_rank": _batches, "resources.gpus_per_node": _gpus, "resources.constraint": _features,
    "resources.walltime": _walltime, "hang": _walltime, "framework": _framework, "environment.modules": _modules,
    "environment.modules.*": _modules, "environment": _environment, "sweep": _sweep, "command": _command, "command.*": _words, "run": _run, "after": _after,
}  # fmt: skip
"""Key -> help for a list or mapping there."""


def _parameter(path: Path, node: Node) -> str:
    """A parameter of a sweep as other tools write it: `{values: […]}`, `{min: …, max: …}`, all parameters one level down."""
    if len(path) != 2 or path[0] != "sweep" or not isinstance(node, MapNode):
        return ""
    values, least, most = (
        node.get("values"),
        _first(node, "min", "low", "start"),
        _first(node, "max", "high", "stop"),
    )
    if isinstance(values, ListNode):
        return f"write `{path[1]}: [{', '.join(_texts(values))}]`"
    if least is not None and most is not None:
        return f"a sweep lists its values: write `{path[1]}: [{least}, {most}]` with those between"
    if path[1] in ("parameters", "params", "space", "search_space", "hyperparameters"):
        return f"write its parameters under `sweep:` itself, `sweep: {{{', '.join(f'{name}: […]' for name in node.entries)}}}`"
    return ""


def _secret(path: Path, node: Node) -> str:
    """The source of a secret, of which no value is shown."""
    if path == ("secrets",):
        names = _texts(node) or ([node.text] if isinstance(node, ScalarNode) else [])
        if names and all(re.fullmatch(r"[A-Z][A-Z0-9_]*", name) and looks_secret(name) for name in names):
            return f"write `secrets: {{{', '.join(f'{name}: {{env: {name}}}' for name in names)}}}`"
    if len(path) == 2 and path[0] == "secrets" and isinstance(node, ScalarNode):
        if re.match(r"[~./]", node.text):
            return f"write `{path[1]}: {{file: …}}` with this path"
        return f"write `{path[1]}: {{env: {path[1]}}}`, with the value in this variable of your shell"
    if (
        len(path) == 3
        and path[2] == "env"
        and isinstance(node, ScalarNode)
        and re.fullmatch(r"\$\{?[A-Za-z_]\w*\}?", node.text)
    ):
        return "write the name of the variable without `$`"
    return ""
