"""The destination of a submission: this host, or a login node."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import PurePosixPath

from dlrun import backends
from dlrun.model.record import record
from dlrun.system.inputs.spec import Inputs


@record(frozen=True, slots=True, kw_only=True)
class Destination:
    """A login node, its transport (`openssh`, `paramiko`, `local`; None: the default), and the job directory.

    `local` is this machine, with the same steps but without a network.
    """

    host: str
    transport: str | None = None
    directory: str | None = None

    def by(self, transport: str | None, directory: str | None) -> Destination:
        """The destination with the user's transport and directory."""
        return replace(self, transport=transport or self.transport, directory=directory)

    def directory_at(self, home: str) -> str | None:
        """The job directory as an absolute path; a relative one starts at the home directory."""
        if self.directory is None or self.directory.startswith("/"):
            return self.directory
        return f"{home}/{self.directory.removeprefix('~/')}"

    def base(self, home: str, jobs: str) -> str:
        """The directory that will have the job directory; jobs: that of all job directories."""
        return str(PurePosixPath(self.directory_at(home) or f"{jobs}/job").parent)


def login_of(inputs: Inputs | None) -> Destination | None:
    """The default destination of a job: the site's login node, unless its client is on this machine."""
    login = inputs.site.login if inputs else None
    if inputs is None or login is None:
        return None
    if shutil.which(backends.scheduler(inputs.site.scheduler.type).CLIENT) is not None:
        return None
    return Destination(host=login.host, transport=login.transport)
