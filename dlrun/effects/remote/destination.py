"""Where a job is submitted: here, or on a login node."""

from __future__ import annotations

import shutil
from dataclasses import replace

from dlrun import backends
from dlrun.effects.inputs.spec import Inputs
from dlrun.model.record import record


@record(frozen=True, slots=True, kw_only=True)
class Destination:
    """A login node, how it is reached (openssh, paramiko, local; None: the usual way), and where the job goes.

    `local` is this very machine, by the same road but without a network.
    """

    host: str
    transport: str | None = None
    directory: str | None = None

    def by(self, transport: str | None, directory: str | None) -> Destination:
        """The same, with what the user set."""
        return replace(self, transport=transport or self.transport, directory=directory)

    def directory_at(self, home: str) -> str | None:
        """The job directory as an absolute path; a relative one that the user gave starts at home."""
        if self.directory is None or self.directory.startswith("/"):
            return self.directory
        return f"{home}/{self.directory.removeprefix('~/')}"


def login_of(inputs: Inputs | None) -> Destination | None:
    """The default destination of a job: the site's login node, unless its client is on this machine."""
    login = inputs.site.login if inputs else None
    if inputs is None or login is None:
        return None
    if shutil.which(backends.scheduler(inputs.site.scheduler.type).CLIENT) is not None:
        return None
    return Destination(host=login.host, transport=login.transport)
