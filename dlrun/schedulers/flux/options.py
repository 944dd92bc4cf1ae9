"""Options of flux-batch(1), and attributes of a job that set the same (RFC 25)."""

from __future__ import annotations

from dlrun.model.site import Option
from dlrun.schedulers.options import OptionRow, OptionTable, optional, written


def _attribute(name: str, part: Option) -> OptionRow:
    """`--setattr=NAME=…`: names without `system.`, `user.` or a dot in front are below `attributes.system`."""
    names = [f"{option}:{below}{name}" for option in ("setattr", "S") for below in _BELOW]
    return optional(" ".join(names), f"resources.{part}", part)


_BELOW = ("", "system.", ".attributes.system.", "attributes.system.")
OPTIONS = OptionTable(
    [
        written("job-name", "name"),
        written("nodes N", "resources.nodes", "nodes"),
        written("nslots n", "resources.ranks"),
        written("cores-per-slot c", "resources.cpus_per_rank"),
        written("gpus-per-slot g", "resources.gpus_per_node", "gpus"),
        written("time-limit t", "resources.walltime", "walltime"),
        written("queue q", "resources.partition", "partition"),
        written("bank B", "resources.account", "account"),
        written("requires", "resources.hosts, resources.exclude and resources.constraint", "constraint"),
        written("dependency", "after"),
        written("urgency", "hold"),
        written("signal", "checkpoint"),
        written("output error", "`dlrun logs` shows the output, which is in the job directory"),
        optional("exclusive x", "resources.exclusive", "exclusive"),
        _attribute("duration", "walltime"),
        _attribute("queue", "partition"),
        _attribute("bank", "account"),
        _attribute("constraints", "constraint"),
    ],
    lists="setattr S",
)
