"""The index of the shipped sites, and a page for each: parts of `docs.generate`.

A page has what users of the site look for, in this order: the shortest spec, the queues, the nodes with a picture, what a job
sets and why, what is not known, and where each fact is from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from dlrun import backends
from dlrun.config.load import LoadedSite
from dlrun.config.nodes import ListNode, MapNode, Node, ScalarNode
from dlrun.model.cpuset import format_list
from dlrun.model.plan import Plan
from dlrun.model.site import Site
from dlrun.model.topology import Topology
from dlrun.plan.build import PlanInputs, build
from dlrun.resources import directory
from dlrun.site.profile.citations import changes
from dlrun.site.profile.missing import missing
from dlrun.system.inputs.node_types import topology_for_site
from dlrun.system.inputs.profiles import Machine, load_site
from dlrun.system.inputs.proof import Proof, proofs
from dlrun.system.inputs.spec import load_spec, topology_for_spec
from docs.settings_page import plain, table


def site_pages(root: Path, note: str) -> dict[str, Callable[[], str]]:
    """The functions that make the index of sites and the page of each."""
    names = sorted(path.stem for path in directory("site-configs").glob("*.yaml"))
    pages = {f"docs/sites/{name}.md": lambda name=name: _site_page(name, root, note) for name in names}
    return {"docs/sites/README.md": lambda: _index(names, root, note), **pages}


def _index(names: list[str], root: Path, note: str) -> str:
    rows = []
    sites = {}
    for name in names:
        loaded = load_site(name, here=_HERE)
        site, known = loaded.site, proofs(loaded, _HERE)
        sites[name] = site
        rows.append((
            f"[{name}]({name}.md)", site.title or "", site.centre or "", site.scheduler.type,
            site.fabric.name if site.fabric else "", site.status, _recognised(site), str(len(known)),
            min((one.date for one in known if one.date), default=""),
            min((one.date for one in known if one.date and changes(one.fact)), default=""), site.confidence or "",
            plain(_example(root / "tests" / "golden" / "sites" / name)),
        ))  # fmt: skip
    text = (
        "# Sites\n\n"
        + note
        + "Profiles that come with dlrun, each value with its source. `dlrun site show NAME` prints one. *Facts* is the number "
        "of values, *oldest* the date of the source that is oldest, *limits* that of the oldest limit or number of nodes, and "
        "*example* where the job on the page is from. `dlrun site check --strict` finds nothing in any of them, except that it "
        "names limits once they are older than a year.\n\n"
    )
    text += table(
        (
            "name", "system", "centre", "scheduler", "fabric", "status", "recognised by", "facts", "oldest", "limits",
            "confidence", "example",
        ),
        rows,
    )  # fmt: skip
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


def _recognised(site: Site) -> str:
    """What tells a login node that it is one of this cluster's."""
    own = site.recognise
    ways = (
        ("ClusterName", own.cluster_name),
        ("PBS server", own.pbs_server),
        ("host", own.hosts),
        ("variable", own.environment),
    )
    return ", ".join(way for way, given in ways if given)


def _example(case: Path) -> str:
    """The address of the centre's example that the golden job is compared with."""
    path = case / "published.yaml"
    found = re.search(r"^source: (.+)$", path.read_text("utf-8"), re.MULTILINE) if path.is_file() else None
    return found[1] if found else ""


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
    site, known = loaded.site, proofs(loaded, _HERE)
    case = root / "tests" / "golden" / "sites" / name
    plan = _plan(case) if case.is_dir() else None
    page = "".join((
        f"# {site.title or name}\n\n{note}", _head(name, site), _first_job(case, plan), _partitions(site, known),
        _node_types(loaded, known), _set(plan).replace(f"{root}/", ""), _rest(loaded), _unknown(site), _sources(site),
    ))  # fmt: skip
    return page.replace(f"{root}/", "")  # places of values in the examples


def _head(name: str, site: Site) -> str:
    """What the site is, how jobs get there, and the note for its users."""
    where = f" of {site.centre}" if site.centre else ""
    state = {"retired": "It is retired.", "generic": "It is a starting point for profiles of one's own."}
    own = site.recognise
    found = bool(own.cluster_name or own.pbs_server or own.hosts or own.environment)
    way = (
        "dlrun recognises its login nodes"
        if found
        else f"give `site: {name}` in the spec, or `--site {name}`"
    )
    text = f"The profile `{name}`{where}: {way}. {state.get(site.status, '')}".rstrip() + "\n"
    text += f"\n{site.note}\n" if site.note else ""
    if site.scheduler.account.help:
        text += f"\nAccounts: {site.scheduler.account.help}.\n"
    return text


def _first_job(case: Path, plan: Plan | None) -> str:
    if plan is None:
        return ""
    spec = (case / "spec.yaml").read_text("utf-8")
    return (
        "\n## A first job\n\nThe centre's own example, or the nearest to it, as a spec; `dlrun submit spec.yaml` submits it.\n\n"
        f"```yaml\n{spec}```\n\nThe batch script begins with these lines, and starts the ranks with the last one:\n\n"
        f"{_script(plan)}"
    )


def _partitions(site: Site, known: tuple[Proof, ...]) -> str:
    if not site.partitions:
        return ""
    rows = []
    for name, one in site.partitions.items():
        nodes = (
            f"{one.min_nodes or 1}–{one.max_nodes}"
            if one.max_nodes
            else (f"from {one.min_nodes}" if one.min_nodes else "")
        )
        asked = [one.queue or name if one.queue != "-" else "", f"QOS {one.qos}" if one.qos else ""]
        rows.append((
            name + (" (default)" if one.default else ""), ", ".join(filter(None, asked)), one.node_type or "", nodes,
            str(one.max_walltime or ""), one.note or "", _stated(known, f"partitions.{name}."),
        ))  # fmt: skip
    header = (
        "`partition:`",
        "asked of the scheduler",
        "nodes of type",
        "nodes",
        "longest walltime",
        "note",
        "stated",
    )
    return "\n## Queues\n\n" + table(header, rows)


def _stated(known: tuple[Proof, ...], prefix: str) -> str:
    """When the values under a key were stated: one date, or the oldest and newest."""
    texts = sorted(
        {one.text.replace("documented ", "") for one in known if one.fact.startswith(prefix) and one.text}
    )
    return " to ".join(dict.fromkeys((texts[0], texts[-1]))) if texts else ""


def _node_types(loaded: LoadedSite, known: tuple[Proof, ...]) -> str:
    site = loaded.site
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
        gpus = (
            f"{shape.gpus.count or ''} {shape.gpus.name}".strip()
            if shape and shape.gpus
            else str(kind.gpus or "")
        )
        rows.append((
            name, str(kind.count or ""), cores, gpus, str(kind.memory or ""), kind.note or "",
            _stated(known, f"node_types.{name}."),
        ))  # fmt: skip
    header = (
        "`node_type:`",
        "how many",
        "packages × cores × threads",
        "GPUs",
        "memory for jobs",
        "note",
        "stated",
    )
    return "\n## Nodes\n\n" + table(header, rows) + _picture(loaded)


def _picture(loaded: LoadedSite) -> str:
    """The node of the default partition: which cores, GPUs and adapters are at which NUMA node."""
    site = loaded.site
    default = next((one.node_type for one in site.partitions.values() if one.default), None)
    kind = default or next(iter(site.node_types))
    node = topology_for_site(loaded, kind)
    if node is None:
        return ""
    return f"\nA node of type `{kind}`, by NUMA node:\n\n```text\n" + "\n".join(_lines(node)) + "\n```\n"


def _lines(node: Topology) -> Iterator[str]:
    several = node.smt() > 1
    for package in node.packages():
        yield f"package {package}"
        cores = [core for core in node.cores if core.package == package]
        for numa in sorted({core.numa for core in cores}):
            mine = [core for core in cores if core.numa == numa]
            text = f"  NUMA node {numa}   cores {format_list(core.pus[0] for core in mine)}"
            if several:
                text += f", second threads {format_list(pu for core in mine for pu in core.pus[1:])}"
            gpus = [str(gpu.index) for gpu in node.gpus if gpu.numa == numa]
            nics = [nic.name for nic in node.nics if nic.numa == numa]
            text += f"   GPU {', '.join(gpus)}" if gpus else ""
            yield text + (f"   {', '.join(nics)}" if nics else "")
    loose = [str(gpu.index) for gpu in node.gpus if gpu.numa is None]
    if loose:
        yield f"GPUs {', '.join(loose)}: at which NUMA node is not known"


def _set(plan: Plan | None) -> str:
    """The variables of the first job with their reasons."""
    if plan is None:
        return ""
    shown = [*plan.variables, *(one for role in plan.roles for one in role.variables)]
    rows = [
        (f"`{one.name}`", plain(str(one.value)), plain(one.because), plain(one.source or "")) for one in shown
    ]
    if not rows:
        return ""
    return (
        "\n## What is set, and why\n\nVariables of the job above. `dlrun plan` shows those of another one, and "
        "`environment.drop` keeps one unset.\n\n" + table(("variable", "value", "why", "source"), rows)
    )


def _rest(loaded: LoadedSite) -> str:
    """The other sections of the profile."""
    text, root = "", loaded.profile.root
    for section in ("scheduler", "launcher", "fabric", "rendezvous", "storage", "environment"):
        node = root.get(section) if root else None
        for key, entry in node.entries.items() if isinstance(node, MapNode) else ():
            text += f"| {section}.{key} | {plain(_flow(entry.value)).replace('|', chr(92) + '|')} |\n"
    return f"\n## The rest of the profile\n\n| key | value |\n| --- | --- |\n{text}" if text else ""


def _unknown(site: Site) -> str:
    lines = [f"- `{one.key}`: {one.cost}; `{one.command}` finds it.\n" for one in missing(site)]
    if site.unknown:
        lines.append(f"- No source states {plain(', '.join(site.unknown))}.\n")
    if not lines:
        return ""
    return "\n## What is not known\n\n" + "".join(lines)


def _sources(site: Site) -> str:
    if not site.sources:
        return ""
    rows = [
        (one.date or "", plain(", ".join(one.covers) or "all others"), plain(one.cite), plain(one.note or ""))
        for one in site.sources
    ]
    return "\n## Where each fact is from\n\n" + table(("date", "keys", "source", "remark"), rows)


def _plan(case: Path) -> Plan:
    loaded = load_spec(case / "spec.yaml", options=backends.framework_options, here=_HERE)
    return build(
        PlanInputs(spec=loaded.spec, site=loaded.site, topology=topology_for_spec(loaded), directory="/scratch/job",
               origins=loaded.origins, sources=loaded.sources)
    )  # fmt: skip


def _script(plan: Plan) -> str:
    """The directives and the launch line of a job."""
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
