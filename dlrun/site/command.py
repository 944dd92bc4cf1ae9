"""`dlrun site`: list, show, check and write site profiles."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from dlrun.backends import FABRICS, LAUNCHERS, SCHEDULERS
from dlrun.errors import Invalid
from dlrun.site.draft import write_draft
from dlrun.terminal.help_page import Command, examples, heading
from dlrun.terminal.options import at_home, force_option, json_option, set_option
from dlrun.terminal.printing import echo, echo_drawn, emit, notice


@click.group(epilog=examples("dlrun site list", "dlrun site check ./mycluster.yaml"))
def command() -> None:
    """List, show, check, test and write site profiles, which describe clusters to dlrun."""


@command.command("list", epilog=examples("dlrun site list --json"))
@json_option
def list_sites(as_json: bool) -> None:
    """List the site profiles on the search path.

    The search path is $DLRUN_SITE_PATH, ~/.config/dlrun/sites, /etc/dlrun/sites, and the profiles that come with dlrun.
    """
    from dlrun.model.problem import InvalidFile
    from dlrun.site.listing import row_of
    from dlrun.system.inputs import profiles

    here = profiles.Machine()
    rows = []
    for name, path in sorted(profiles.available(here).items()):
        try:
            profile = profiles.load_profile(path, here)
        except InvalidFile:
            rows.append(row_of(name, str(path), None))
        else:
            rows.append(row_of(name, str(path), profile))
    if as_json:
        emit("sites", rows)
        return
    from dlrun.terminal.table import Column, show

    drops = {"name": 0, "centre": 4, "scheduler": 0, "nodes": 2, "fabric": 1, "confidence": 5, "status": 3}
    cells = [[str(row[c] if row[c] is not None else "-") for c in drops] for row in rows]
    show([Column(title=c.upper(), drop=drop) for c, drop in drops.items()], cells)
    for row in rows:
        if row["problems"]:
            notice(f"warning: `{row['name']}` has problems; `dlrun site check {row['name']}` lists them")


@command.command(
    "show",
    short_help="Print a profile with the place of each value.",
    epilog=examples("dlrun site show workstation"),
)
@click.argument("site", metavar="[NAME|FILE]", required=False)
@json_option
def show(site: str | None, as_json: bool) -> None:
    """Print a profile merged with those that it extends, with the file and line of each value; default: this cluster's."""
    from dlrun.site.listing import yaml_lines
    from dlrun.system.inputs import profiles

    here = profiles.Machine()
    because = None
    if site is None:
        site, because = profiles.recognise(here)
    loaded = profiles.load_site(site, here=here)
    root = loaded.profile.root
    if as_json:
        origins = {key: str(origin) for key, origin in loaded.profile.origins.items()}
        emit("site", {"path": str(loaded.path), "profile": loaded.site, "origins": origins})
        return
    if because is not None:
        notice(f"site of this machine: {because}")
    assert root is not None  # noqa: S101 - a profile that loads has a tree
    lines = list(yaml_lines(root, 0))
    width = min(60, max(len(text) for text, _ in lines))
    for text, place in lines:
        echo(f"{text:<{width}}  # {place}" if place else text)


@command.command(
    "check",
    short_help="Check profiles for errors and missing values.",
    epilog=examples("dlrun site check ./mycluster.yaml --strict"),
)
@click.argument("sites", metavar="NAME|FILE...", nargs=-1, required=True)
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@json_option
@click.pass_context
def check(context: click.Context, sites: tuple[str, ...], strict: bool, as_json: bool) -> int:
    """Check profiles for errors and missing values; on the cluster itself, also against its scheduler.

    Limits and numbers of nodes whose own source is older than a year are warnings. The proof of the values follows: when they
    were documented, or measured by `dlrun site test`. Then the keys that the profile lacks are listed, worst first, each with
    what dlrun cannot do without it and the command that finds its value.
    """
    from dlrun.site.profile import check as site_check
    from dlrun.site.profile.check import proof_lines
    from dlrun.site.profile.missing import missing_lines
    from dlrun.terminal.colour import wanted
    from dlrun.terminal.diagnostics import report_problems

    options = context.find_root().obj or {}
    colour = wanted(options.get("color", "auto"), sys.stderr, os.environ)
    failed = False
    findings = []
    for name in sites:
        checked = site_check.check_profile(name)
        bad = [p for p in checked.problems if strict or not p.warning]
        failed = failed or bool(bad)
        findings.append(checked)
        if as_json:
            continue
        form = options.get("error_format", "text")
        text = report_problems(checked.problems, checked.sources, form=form, colour=colour)
        echo_drawn(text, err=True)
        for line in (*proof_lines(checked.proofs), *missing_lines(checked.missing)):
            notice(line)
        count = len(checked.problems)
        notice(f"{name}: {count or 'no'} finding{'s' * (count != 1)}")
    if as_json:
        from dlrun.terminal.diagnostics import as_json as plain

        rows = [
            {
                "site": f.name,
                "problems": [plain(p) for p in f.problems],
                "missing": [m.plain() for m in f.missing],
                "facts": [
                    {"key": p.fact, "value": p.value, "proof": p.text, "source": p.cite} for p in f.proofs
                ],
            }
            for f in findings
        ]
        emit("checks", rows)
    return 2 if failed else 0


@command.command(
    "test",
    short_help="Submit small jobs that check a profile on the nodes.",
    epilog=examples("dlrun site test mycluster --partition gpu --set resources.account=abc"),
)
@click.argument("site", metavar="NAME|FILE")
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="NAME",
    help="Test only this partition; default: all. Repeatable.",
)
@set_option("Set a key of the jobs' spec, such as resources.account=abc. Repeatable.")
@click.option(
    "--wait",
    default="30m",
    show_default=True,
    metavar="TIME",
    help="Maximum queue time of a job; then it is cancelled.",
)
@click.option("--dry-run", is_flag=True, help="List the jobs and their maximum cost without submitting them.")
@json_option
def test(
    site: str, partitions: tuple[str, ...], sets: tuple[str, ...], wait: str, dry_run: bool, as_json: bool
) -> int:
    """Submit small jobs that check a profile on the nodes: one job for each partition and node type.

    The profile is printed with a verdict for each value, and with the corrected line below each wrong value; exit 1 if any
    value is wrong. The jobs compare topology, memory, GPUs, interfaces, adapters, storage, modules, launcher and transport.
    Limits are compared with the scheduler's, which is also asked whether it would accept the largest jobs. Values that hold are
    recorded with node and date beside the profile, in NAME.measured.json; `dlrun plan`, `explain` and `site check` show them.
    """
    from dlrun.model.units import Duration, many
    from dlrun.site.testing import cost, run
    from dlrun.site.testing.recorded import record
    from dlrun.site.verdicts import lines_of, plain

    try:
        longest = Duration.parse(wait)
    except ValueError as error:
        raise Invalid(f"--wait: {error}") from None
    if dry_run:
        for line in cost.lines_of(run.jobs_of(site, partitions=partitions, sets=sets)):
            echo(line)
        return 0
    tested = run.test_profile(site, partitions=partitions, sets=sets, wait=longest, notice=notice)
    record(tested, notice)
    wrong = [fact for fact in tested.facts if fact.verdict == "differs"]
    if as_json:
        emit("site_test", {"site": tested.loaded.site.name, "facts": [plain(fact) for fact in tested.facts]})
        return 1 if wrong else 0
    for line in lines_of(tested):
        echo(line)
    count = {
        verdict: sum(fact.verdict == verdict for fact in tested.facts) for verdict in ("holds", "not seen")
    }
    notice(
        f"{tested.loaded.site.name}: {many(count['holds'], 'value')} {'hold' if count['holds'] != 1 else 'holds'}, "
        f"{len(wrong)} {'differ' if len(wrong) != 1 else 'differs'}, {count['not seen']} not seen "
        f"({tested.jobs} job{'s' * (tested.jobs != 1)})"
    )
    return 1 if wrong else 0


_OUTPUT = click.option(
    "--output", "-o", metavar="FILE", callback=lambda _ctx, _param, name: name and at_home(name),
    help="Write the profile to a new file; default: stdout.",
)  # fmt: skip


@command.command(
    "new",
    cls=Command,
    short_help="Write a commented profile from options or answers.",
    epilog=examples("dlrun site new mycluster --scheduler slurm --cores 32 --gpus 4"),
)
@click.argument("name")
@heading("Scheduler and launcher")
@click.option("--scheduler", type=click.Choice(tuple(SCHEDULERS)), help="Scheduler.")
@click.option("--version", metavar="VERSION", help="Version of the scheduler, such as 23.11.")
@click.option(
    "--cluster-name",
    metavar="NAME",
    help="Slurm's ClusterName or the PBS server, by which dlrun recognises the cluster.",
)
@click.option("--launcher", type=click.Choice(tuple(LAUNCHERS)), help="Launcher that starts the ranks.")
@click.option("--partition", metavar="NAME", help="Default partition.")
@click.option("--max-walltime", metavar="TIME", help="Longest walltime of that partition, such as 24h.")
@heading("Nodes and fabric")
@click.option("--packages", type=click.IntRange(1), metavar="N", help="Packages (sockets) of a node.")
@click.option("--cores", type=click.IntRange(1), metavar="N", help="Cores of each package.")
@click.option("--smt", type=click.IntRange(1), metavar="N", help="Hardware threads of each core.")
@click.option("--gpus", type=click.IntRange(0), metavar="N", help="GPUs of a node.")
@click.option("--gpu-kind", type=click.Choice(["cuda", "rocm", "ze"]), help="GPU runtime.")
@click.option("--fabric", type=click.Choice(FABRICS), help="Network between the nodes.")
@click.option("--interface", metavar="NAME", help="IP interface of that network on compute nodes.")
@heading("Options")
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set another key of the profile, such as scheduler.parallel_environment=mpi-{slots}. Repeatable.",
)
@_OUTPUT
@force_option
@json_option
def new(
    name: str, output: str | None, force: bool, sets: tuple[str, ...], as_json: bool, **options: Any
) -> None:
    """Write a commented profile from options; on a terminal, missing values are asked for."""
    from dlrun.site.profile import new as site_new

    options["settings"] = site_new.settings(sets)
    if sys.stdin.isatty() and sys.stderr.isatty():
        from dlrun.site.questions import ask_user

        options = ask_user(options)
    chosen = {key: value for key, value in options.items() if value is not None}
    answers = site_new.ProfileAnswers(name=name, **chosen)
    head = [f"Profile of {name}. `dlrun site check` lists what is missing."]
    write_draft(site_new.draft(answers), head, output, force=force, as_json=as_json)


@command.command(
    "detect",
    short_help="Draft a profile of this cluster from its scheduler.",
    epilog=examples("dlrun site detect --name mycluster --probe --output mycluster.yaml"),
)
@click.option("--name", metavar="NAME", help="Name of the site; default: the name of the cluster.")
@click.option(
    "--probe", is_flag=True, help="Run a short job on each kind of node to detect its hardware and software."
)
@click.option(
    "--probe-option",
    "options",
    multiple=True,
    metavar="OPTION",
    help="Option of srun or qsub for the probe jobs, such as --account=abc. Repeatable.",
)
@click.option(
    "--probe-wait",
    "wait",
    default="10m",
    show_default=True,
    metavar="TIME",
    help="Maximum queue time of a probe job.",
)
@_OUTPUT
@force_option
@json_option
def detect(
    name: str | None,
    probe: bool,
    options: tuple[str, ...],
    wait: str,
    output: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Draft a profile of this cluster from its scheduler, and list what could not be detected.

    NUMA nodes, CPU numbering, GPUs, adapters, disks and MPI can be detected only on compute nodes: use --probe, or run
    this command in a job. The hardware of the login node is not used.
    """
    from dlrun.model.units import Duration
    from dlrun.site.profile import detect as site_detect, probe as site_probe, query as site_query
    from dlrun.system.inputs.profiles import Machine

    try:
        seconds = int(Duration.parse(wait))
    except ValueError as error:
        raise Invalid(f"--probe-wait: {error}") from None
    if options and not probe:
        raise Invalid("`--probe-option` is for probe jobs", help="add `--probe`")
    here = Machine()
    cluster = site_query.ask_cluster(here)
    own = site_detect.kind_here(cluster, here)
    machine = site_probe.this_node()
    asked = site_probe.ProbeOptions(options=options, wait=max(1, seconds), notice=notice)
    probed = site_probe.probe(cluster, here, asked) if probe else site_probe.Probed(facts={}, failed={})
    seen = site_detect.CollectedFacts(
        nodes={**({own: machine} if own else {}), **probed.facts},
        failed=probed.failed,
        login=None if own else machine,
        hardware=None if own else site_probe.hardware(),
        stem=Path(output).stem if output else None,
    )
    called = name or cluster.name or "mycluster"
    head = f"Drafted by `dlrun site detect` from the scheduler of {cluster.name or 'this cluster'}"
    nodes = f" and {len(seen.nodes)} compute node{'s' * (len(seen.nodes) > 1)}" if seen.nodes else ""
    write_draft(
        site_detect.detect(called, cluster, seen), [f"{head}{nodes}."], output, force=force, as_json=as_json
    )


@command.command(
    "import",
    short_help="Draft a profile from the configuration of other tools.",
    epilog=examples("dlrun site import settings.py --system daint --output daint.yaml"),
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--system",
    metavar="NAME",
    help="System to import, required if the file has several; of other files, the name of the site.",
)
@_OUTPUT
@force_option
@json_option
def import_(
    files: tuple[str, ...], system: str | None, output: str | None, force: bool, as_json: bool
) -> None:
    """Draft a profile from files about a cluster. Files are read, not executed; lines that were not converted are listed.

    FILE is a ReFrame configuration (JSON or Python), an institutional Nextflow configuration, or the output of a command
    (one or several): `scontrol show config`, `scontrol show partition`, `scontrol show node`, `pbsnodes -a -F json`,
    `qstat -Qf -F json`, `qmgr -c "print server"`.
    """
    from dlrun.site.imports.files import import_files

    paths = [Path(name) for name in files]
    draft = import_files(paths, system)
    head = f"Imported from {draft.made_from}, {', '.join(path.name for path in paths)}."
    write_draft(draft, [head], output, force=force, as_json=as_json)
