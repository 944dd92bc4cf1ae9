"""`dlrun plan --script`: print or write the scripts of a job."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from dlrun.terminal.help_page import examples
from dlrun.terminal.options import UserPath, into_file, json_option, spec_options
from dlrun.terminal.printing import echo_data, emit, notice
from dlrun.terminal.spec_command import SpecCommand


@click.command(
    cls=SpecCommand, epilog=examples("dlrun plan --script spec.yaml --site perlmutter -o jobs/first")
)
@spec_options
@click.option("-o", "--output", type=UserPath(), help="Write the whole job directory to this path.")
@click.option("--rank", is_flag=True, help="Print rank.sh, which each rank runs, instead of job.sh.")
@click.option(
    "--check",
    type=UserPath(),
    metavar="FILE",
    help="Compare FILE with the rendered script; exit 1 if they differ.",
)
@json_option
def command(
    spec: Path,
    site: str | None,
    sets: tuple[str, ...],
    output: Path | None,
    rank: bool,
    check: Path | None,
    as_json: bool,
) -> int:
    """Print the job script of SPEC; with -o, write the whole job directory, which needs only bash and the scheduler."""
    from dlrun.errors import Invalid
    from dlrun.jobs.records import directories, jobs
    from dlrun.jobs.submission.files import files
    from dlrun.jobs.submission.prepare import prepare
    from dlrun.render.written_names import written_names

    prepared = prepare(spec, sets=sets, site=site)
    # Scripts contain the path of their directory: compared scripts need the same one.
    directory = (output or _job_directory(check) or jobs.home() / prepared.plan.name).absolute()
    made = files(prepared.plan, prepared.inputs, directory)
    script = made["rank.sh" if rank else "job.sh"]
    if output is not None:
        directories.create(directory, made, written_names(prepared.plan), option="`-o`")
        notice(f"wrote {directory}; submit job.sh from there")
    elif check is not None:
        try:
            same = check.read_text(encoding="utf-8") == script
        except (OSError, UnicodeDecodeError) as error:
            raise Invalid(f"cannot read `{check}`: {error}") from None
        notice(f"{check} {'is up to date' if same else 'differs from the rendered script'}")
        return 0 if same else 1
    elif as_json:
        emit("files", {name: made[name] for name in ("job.sh", "rank.sh")})
    else:
        echo_data(script)
        if into_file():
            notice(
                f"to run the job, write its whole directory: `dlrun plan --script {shlex.quote(str(spec))} -o DIR`"
            )
    return 0


def _job_directory(script: Path | None) -> Path | None:
    """The job directory of a script; None for a script elsewhere."""
    return script.parent if script is not None and (script.parent / "plan.json").is_file() else None
