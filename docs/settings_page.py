"""The page of fabric settings, and a page for each shipped site: parts of `docs.generate`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from dlrun import backends
from dlrun.config.nodes import ListNode, MapNode, Node, ScalarNode
from dlrun.effects.inputs.profiles import Machine, load_site
from dlrun.effects.inputs.spec import load_spec, topology_for_spec
from dlrun.fabrics.rules import condition_text
from dlrun.fabrics.table import Rule, descriptions, left_out, rules, sources
from dlrun.model.site import Site
from dlrun.plan.build import PlanInputs, build
from dlrun.render.affinity.variables import VARIABLES
from dlrun.resources import directory

_CLASSES = {
    "safe": "Set by dlrun if the conditions hold, or the library's own default.",
    "tunable": "Only from a site profile (`fabric.settings`) or a spec (`environment.variables`).",
    "harmful": "Wrong or slow on many systems: dlrun warns of it, or rejects it, if a profile or a spec sets it.",
    "deprecated": "Renamed, removed, or correct only for old versions: dlrun warns of it.",
}
_ACTS = {
    "set": "set",
    "default": "the default",
    "dlrun": "set by dlrun",
    "refuse": "refused",
    "asks": "asks for its unit",
}


def settings_page(note: str) -> str:
    """Every setting, by class and library; then the effect of each variable, unused settings, and the sources."""
    text = "# Fabric settings\n\n" + note
    text += (
        "Variables of fabrics and communication libraries, and when dlrun sets them. `dlrun explain VARIABLE` prints "
        "the same for one of them, and its origin in a plan; `environment.drop` of a spec keeps one unset. If a profile "
        "does not give the version of a library, the newest is assumed.\n"
    )
    for cls, meaning in _CLASSES.items():
        text += f"\n## {cls.capitalize()}\n\n{meaning}\n\n"
        rows = [_row(rule) for rule in rules() if rule.cls == cls]
        text += table(("fabric", "library", "variable", "value", "when", "why", "source"), rows)
    text += "\n## Variables of a placement\n\nVariables that `dlrun tune-affinity` and `rank.sh` set when they bind a rank.\n\n"
    differ = {True: "yes", False: "no"}
    text += table(
        ("variable", "read by", "may differ by rank", "why"),
        [(f"`{v.name}`", v.reader, differ[v.may_differ], v.because.replace("`", "")) for v in VARIABLES],
    )
    text += "\n## Variables\n\nThe effect of each variable.\n\n"
    text += table(
        ("variable", "sets"), [(f"`{name}`", plain(said)) for name, said in sorted(descriptions().items())]
    )
    text += "\n## Settings that dlrun does not use\n\n"
    text += table(("setting", "why"), [(plain(setting), why) for setting, why in left_out()])
    text += "\n## Sources\n\n"
    return text + "".join(f"- {code}: {plain(address)}\n" for code, address in sources().items())


def _row(rule: Rule) -> tuple[str, ...]:
    conditions = [
        *([f"{rule.library} {rule.versions}"] if rule.versions else []),
        *map(condition_text, rule.when),
    ]
    conditions += [_ACTS[rule.act]] if rule.act in _ACTS else []
    conditions += [f"unit {rule.unit}"] if rule.unit else []
    why = rule.because + (f" Instead: {rule.instead}." if rule.instead else "")
    return (", ".join(rule.fabrics), rule.library, f"`{rule.name}`", plain(rule.value), ", ".join(conditions).replace("`", ""),
            plain(why), " ".join(rule.source))  # fmt: skip


def plain(text: str) -> str:
    """Text with the characters of Markdown escaped."""
    return text.replace("`", "").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |\n"
        for row in lines
    )


def site_pages(root: Path, note: str) -> dict[str, Callable[[], str]]:
    """The functions that make the index of sites and the page of each."""
    names = sorted(path.stem for path in directory("site-configs").glob("*.yaml"))
    pages = {f"docs/sites/{name}.md": lambda name=name: _site_page(name, root, note) for name in names}
    return {"docs/sites/README.md": lambda: _index(names, note), **pages}


def _index(names: list[str], note: str) -> str:
    rows = []
    sites = {name: load_site(name, here=_HERE).site for name in names}
    for name, site in sites.items():
        fabric = site.fabric.name if site.fabric else ""
        rows.append(
            (
                f"[{name}]({name}.md)",
                site.title or "",
                site.centre or "",
                site.scheduler.type,
                fabric,
                site.status,
                site.confidence or "",
            )
        )
    text = (
        "# Sites\n\n"
        + note
        + "Profiles that come with dlrun, each value with its source. `dlrun site show NAME` prints one.\n\n"
    )
    text += table(("name", "system", "centre", "scheduler", "fabric", "status", "confidence"), rows)
    text += (
        "\n[Systems without a profile](not-shipped.md); [sources of the shipped profiles](../reference/site-sources.md), with "
        "their dates.\n"
    )
    for title, kinds in (
        ("country", _country),
        ("scheduler", _scheduler),
        ("fabric", _fabric),
        ("GPU", _gpus),
    ):
        lists: dict[str, list[str]] = {}
        for name, site in sites.items():
            for kind in kinds(site):
                lists.setdefault(kind, []).append(f"[{name}]({name}.md)")
        text += f"\n## By {title}\n\n" + table(
            (title, "sites"), [(k, ", ".join(lists[k])) for k in sorted(lists)]
        )
    return text


def _country(site: Site) -> set[str]:
    """The country at the end of the centre's name; none for systems of no centre."""
    found = re.search(r", ([A-Z]{2})$", site.centre or "")
    return {found[1]} if found else set()


def _scheduler(site: Site) -> set[str]:
    return {site.scheduler.type}


def _fabric(site: Site) -> set[str]:
    kinds = [site.fabric, *(part.overrides.get("fabric") for part in site.node_types.values())]
    return {kind["name"] if isinstance(kind, dict) else kind.name for kind in kinds if kind and _named(kind)}


def _named(fabric: object) -> bool:
    return not isinstance(fabric, dict) or "name" in fabric


def _gpus(site: Site) -> set[str]:
    """The models, without memory sizes and form factors; `none` where nodes are described and have no GPU."""
    shapes = [kind.topology for kind in site.node_types.values() if kind.topology]
    models = [" ".join(shape.gpus.name.split()[:1]) for shape in shapes if shape.gpus and shape.gpus.name]
    return set(models) or ({"none"} if shapes and not any(shape.gpus for shape in shapes) else set())


_HERE = Machine(environment={"PATH": ""}, home=Path("/nowhere"), root=Path("/nowhere"), host="docs")


def _site_page(name: str, root: Path, note: str) -> str:
    loaded = load_site(name, here=_HERE)
    site = loaded.site
    text = f"# {site.title or name}\n\n{note}"
    where = f" at {site.centre}" if site.centre else ""
    text += f"`site: {name}`{where}; {site.status}, confidence {site.confidence or 'unknown'}.\n"
    text += f"\n{site.note}\n" if site.note else ""
    text += _partitions(site) + _node_types(site)
    root_node = loaded.profile.root
    for section in ("scheduler", "launcher", "fabric", "rendezvous", "storage", "environment"):
        node = root_node.get(section) if root_node else None
        if isinstance(node, MapNode) and node.entries:
            text += f"\n## {section.replace('_', ' ').capitalize()}\n\n"
            text += table(
                ("key", "value"), [(key, plain(_flow(entry.value))) for key, entry in node.entries.items()]
            )
    case = root / "tests" / "golden" / "sites" / name
    if case.is_dir():
        spec = (case / "spec.yaml").read_text("utf-8")
        text += f"\n## Example\n\n```yaml\n{spec}```\n\n{_example(case)}"
    if site.sources:
        text += "\n## Sources\n\n"
        for source in site.sources:
            covers = ", ".join(source.covers) or "all of it"
            when = f", {source.date}" if source.date else ""
            text += f"- {plain(covers)}: {plain(source.cite)}{when}{f' ({plain(source.note)})' if source.note else ''}\n"
    return text


def _partitions(site: Site) -> str:
    if not site.partitions:
        return ""
    rows = []
    for name, one in site.partitions.items():
        nodes = (
            f"{one.min_nodes or 1}–{one.max_nodes}"
            if one.max_nodes
            else (f"from {one.min_nodes}" if one.min_nodes else "")
        )
        rows.append(
            (
                name + (" (default)" if one.default else ""),
                one.queue or name,
                one.qos or "",
                one.node_type or "",
                nodes,
                str(one.max_walltime or ""),
                one.note or "",
            )
        )
    return "\n## Partitions\n\n" + table(
        ("name in specs", "queue", "QOS", "node type", "nodes", "walltime", "note"), rows
    )


def _node_types(site: Site) -> str:
    if not site.node_types:
        return ""
    rows = []
    for name, kind in site.node_types.items():
        shape = kind.topology
        cores = (
            f"{shape.packages} × {shape.cores}" + (f" × {shape.smt}" if shape.smt > 1 else "")
            if shape
            else "not known"
        )
        gpus = f"{shape.gpus.count or ''} {shape.gpus.name}".strip() if shape and shape.gpus else ""
        rows.append((name, str(kind.count or ""), cores, gpus, str(kind.memory or ""), kind.note or ""))
    return "\n## Nodes\n\n" + table(
        ("name", "how many", "packages × cores × threads", "GPUs", "memory for jobs", "note"), rows
    )


def _example(case: Path) -> str:
    """The directives and the launch line of a case's job."""
    loaded = load_spec(case / "spec.yaml", options=backends.framework_options, here=_HERE)
    plan = build(
        PlanInputs(spec=loaded.spec, site=loaded.site, topology=topology_for_spec(loaded), directory="/scratch/job",
               origins=loaded.origins, sources=loaded.sources)
    )  # fmt: skip
    prefix = backends.scheduler(plan.scheduler).PREFIX
    lines = [f"{prefix} {one.text}" for one in plan.directives]
    launch = "\n".join(" ".join(map(str, role.launch)) for role in plan.roles)
    text = "\n".join([*lines, "", f"{launch} …"] if lines else [f"{launch} …"])
    return f"```bash\n{text}\n```\n"


def _flow(node: Node) -> str:
    if isinstance(node, ScalarNode):
        return node.text
    if isinstance(node, ListNode):
        return ", ".join(map(_flow, node.items))
    return "; ".join(f"{key}: {_flow(entry.value)}" for key, entry in node.entries.items())
