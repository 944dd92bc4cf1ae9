"""The environment of the ranks: modules, venv and variables, each with its reason."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dlrun.model.origin import Origin
from dlrun.model.plan import (
    DataPlan,
    EnvironmentPlan,
    RendezvousPlan,
    RolePlan,
    SecretPlan,
    Variable,
)
from dlrun.model.program import ContainerPlan
from dlrun.model.site import Rendezvous, Site
from dlrun.model.spec import Spec
from dlrun.model.text import Shell, Text
from dlrun.plan.decisions import Ledger

_OPENMP = "OpenMP 5.2, chapter 21"
DATA_PATH = "data-path"
"""The rule of the variables with paths of data sets."""


def set_up(
    spec: Spec, site: Site, container: ContainerPlan | None, staged: DataPlan | None = None
) -> EnvironmentPlan:
    """The set-up of the environment: the site's part, then the user's."""
    return EnvironmentPlan(
        python=site.python,
        site_setup=site.environment.setup,
        hygiene=site.environment.hygiene if spec.environment.hygiene == "auto" else spec.environment.hygiene,
        modules=(*site.environment.modules, *spec.environment.modules),
        conda=spec.environment.conda,
        venv=spec.environment.venv,
        setup=(*spec.environment.setup, *unset(spec)),
        container=container,
        staged=staged,
    )


def unset(spec: Spec) -> tuple[str, ...]:
    """The shell line that unsets dropped variables, which a module or the user's shell may have set."""
    return (f"unset -v {' '.join(spec.environment.drop)}",) if spec.environment.drop else ()


def check_dropped(spec: Spec, roles: Sequence[RolePlan], ledger: Ledger) -> None:
    """Add problems for names that are both dropped and set, and for dropped names that ranks need."""
    needed = {variable.name for role in roles for variable in role.variables}
    for name in spec.environment.drop:
        if name in needed:
            ledger.problem(
                "DLR069", f"`{name}` cannot be dropped: it is part of the rendezvous", "environment.drop",
                help="remove it from `environment.drop`",
            )  # fmt: skip
        elif name in spec.environment.variables:
            ledger.problem(
                "DLR069", f"`{name}` is both set under `variables` and unset by `drop`", "environment.drop",
                f"environment.variables.{name}", help="it stays unset; remove it from one of them", warning=True,
            )  # fmt: skip


def variables(
    spec: Spec, site: Site, values: Sequence[Variable], of_user: Mapping[str, Text], ledger: Ledger
) -> tuple[Variable, ...]:
    """All variables of the job: dlrun's, the site's, the user's (`of_user`), later ones overriding earlier ones.

    An override is recorded in the reason of the variable.
    """
    # Later ones replace earlier ones, and move to the end: values may refer to variables that are set before.
    chosen: dict[str, Variable] = {v.name: v for v in values}
    for name, value in site.environment.variables.items():
        _override(
            chosen, name, value=Text.of(value), rule="site-variable", whose=f"site {site.name}", origin=None
        )
    for name, text in of_user.items():
        origin = ledger.origin(f"environment.variables.{name}")
        _override(chosen, name, value=text, rule="user-variable", whose="the spec", origin=origin)
    for name in spec.environment.drop:
        gone = chosen.pop(name, None)
        instead = f" (otherwise {gone.value}: {gone.because})" if gone else ""
        origin = ledger.origin("environment.drop")
        ledger.decide(
            f"variables.{name}", "unset", "user-drop", f"left unset by the spec{instead}", origin=origin
        )
    for variable in chosen.values():
        ledger.decide(
            f"variables.{variable.name}",
            str(variable.value),
            variable.rule,
            variable.because,
            origin=variable.origin,
        )
    return tuple(chosen.values())


def _override(
    chosen: dict[str, Variable], name: str, value: Text, rule: str, whose: str, origin: Origin | None
) -> None:
    replaced = chosen.pop(name, None)
    instead = (
        f" (dlrun would have set {replaced.value}: {replaced.because})"
        if replaced and replaced.value != value
        else ""
    )
    place = f"{whose}, {origin}" if origin else whose
    chosen[name] = Variable(
        name=name, value=value, rule=rule, because=f"set by {place}{instead}", origin=origin
    )


def threading(threads: int | None, because: str) -> Variable:
    """OMP_NUM_THREADS of a rank; an expansion where the job binds the ranks.

    Single threads are not bound (`OMP_PROC_BIND`), because data-loader processes would inherit the one-core mask of the
    main thread.
    """
    count: str | Shell = str(threads) if threads is not None else Shell("$DLRUN_THREADS")
    why = because if threads is not None else "one per core of the rank"
    return Variable(
        name="OMP_NUM_THREADS", value=Text.of(count), rule="threads-per-rank", because=why, source=_OPENMP
    )


UNBUFFERED = Variable(
    name="PYTHONUNBUFFERED",
    value=Text.of("1"),
    rule="log-at-once",
    because="output is not buffered, so that a killed rank loses no lines",
    source="Python documentation, Command line and environment",
)


def secrets(spec: Spec) -> tuple[SecretPlan, ...]:
    """References to secrets, without values: each rank reads them when it starts."""
    return tuple(
        SecretPlan(name=name, env=secret.env, file=secret.file, command=secret.command)
        for name, secret in spec.secrets.items()
    )


def rendezvous(rule: Rendezvous, ports: int) -> RendezvousPlan:
    """The rendezvous address by the site's rule, as a shell expansion for rank 0's node, and the range of ports."""
    # A letter directly after `$DLRUN_FIRST_HOST` would be read as part of the name.
    letters = rule.suffix[:1].isalnum()
    first, here = (
        ("${DLRUN_FIRST_HOST}", "${DLRUN_HOST}") if letters else ("$DLRUN_FIRST_HOST", "$DLRUN_HOST")
    )
    choices = {
        "hostname": (f"{first}{rule.suffix}", "the first host, under its name in the scheduler"),
        "fqdn": (f"$(hostname -f){rule.suffix}", "the first host's fully qualified name"),
        "ip": ("$(hostname -i | cut -d ' ' -f 1)", "the first host's address by `hostname -i`"),
        "interface": (
            f"$(dlrun_address_of {rule.interface})",
            f"the address of `{rule.interface}` on the first host",
        ),
        "loopback": ("127.0.0.1", "all ranks run on this machine"),
    }
    code, because = choices[rule.address]
    own = f"{here}{rule.suffix}" if rule.address == "hostname" else code
    suffix = (
        f", with `{rule.suffix}` appended" if rule.suffix and rule.address in ("hostname", "fqdn") else ""
    )
    first_port, last_port = rule.ports
    return RendezvousPlan(
        address=Shell(code),
        rule=f"rendezvous-{rule.address}",
        because=because + suffix,
        first_port=first_port,
        last_port=last_port,
        ports=max(1, ports),
        suffix=rule.suffix,
        own=Shell(own),
    )


def data_paths(data: Sequence[DataPlan]) -> tuple[Variable, ...]:
    """`DLRUN_DATA_NAME` of each data set read in place, the same path as `{{ data.NAME }}`.

    The variables of staged data sets are set by the job once the sets are complete.
    """
    return tuple(
        Variable(
            name=data_set.variable,
            # `{{ data.NAME }}` of a set of a hub is this variable: its directory is known only when it is fetched.
            value=data_set.path if data_set.hub is None else Text.of(data_set.source),
            rule=DATA_PATH,
            because=f"data set `{data_set.name}`: {data_set.because}",
        )
        for data_set in data
        if data_set.strategy == "in_place"
    )


def of_hub(data: Sequence[DataPlan], spec: Spec, site: Site) -> tuple[Variable, ...]:
    """The variables of the hub's library where a job has a model or data set of the hub."""
    already_set = {*spec.environment.variables, *site.environment.variables}
    return (*_hub_offline(data), *_hub_cache(data, already_set))


def _hub_offline(data: Sequence[DataPlan]) -> tuple[Variable, ...]:
    """`HF_HUB_OFFLINE` where a job has a model or data set of the hub."""
    names = ", ".join(f"`{data_set.name}`" for data_set in data if data_set.hub is not None)
    because = (
        f"what {names} names was fetched at the submission: without this each rank asks the hub for a newer version, which is "
        "refused above a limit (429), and fails on nodes without a network; "
        "`HF_HUB_OFFLINE: '0'` under `environment.variables` lets ranks ask"
    )
    return (Variable(
        name="HF_HUB_OFFLINE", value=Text.of("1"), rule="hub-offline", because=because,
        source="huggingface_hub, Environment variables",
    ),) if names else ()  # fmt: skip


def _hub_cache(data: Sequence[DataPlan], already_set: Collection[str]) -> tuple[Variable, ...]:
    """`HF_HUB_CACHE` where a job has a model or data set of the hub; `already_set`: names that spec or site set."""
    names = ", ".join(f"`{data_set.name}`" for data_set in data if in_hub_cache(data_set))
    because = (
        f"a program that names a repository as on the hub finds in it what {names} names, and by links what your own cache has; "
        "`main` is the commit of the data set"
    )
    return (Variable(
        name="HF_HUB_CACHE", value=Text.of(Shell("$DLRUN_RUN_DIR"), "/hub"), rule=HUB_CACHE, because=because,
        source="huggingface_hub, Environment variables",
    ),) if names and "HF_HUB_OFFLINE" not in already_set else ()  # fmt: skip


HUB_CACHE = "hub-cache"
"""The rule of `HF_HUB_CACHE`."""


def in_hub_cache(data: DataPlan) -> bool:
    """Whether a data set is a directory with the files of a repository under their own names."""
    return data.hub is not None and data.strategy != "pack"
