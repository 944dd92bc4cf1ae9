"""Find site profiles on disk, and the profile of this machine.

No scheduler is called: the names of a cluster are read from configuration files and the environment.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Container, Mapping
from dataclasses import field
from pathlib import Path

from dlrun import resources
from dlrun.backends import UNSUPPORTED
from dlrun.config import sites
from dlrun.config.load import LoadedSite
from dlrun.config.nodes import short
from dlrun.config.secrets import hide
from dlrun.config.sites import Profile, ProfileText, Surroundings
from dlrun.config.source import MAX_BYTES
from dlrun.model.nearest import SLIP, nearest
from dlrun.model.origin import Layer
from dlrun.model.problem import InvalidFile, Problem
from dlrun.model.record import record
from dlrun.system.inputs.text import read_text, yaml_files
from dlrun.system.paths import NO_HOME, expanded, fault, home, read_bytes, text_of


@record(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine and the user, as far as configuration depends on them; tests construct their own."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    home: Path = field(default_factory=lambda: home() or NO_HOME)
    root: Path = Path("/")
    host: str = field(default_factory=lambda: os.uname().nodename)

    @property
    def settings(self) -> Path:
        """The user's directory of settings: `~/.config/dlrun`, or below `$XDG_CONFIG_HOME`."""
        base = self.environment.get("XDG_CONFIG_HOME")
        return (Path(base) if base else self.home / ".config") / "dlrun"

    @property
    def settings_files(self) -> tuple[Path, ...]:
        """Files with defaults for specs, the weakest first: the centre's, the user's."""
        return self.root / "etc/dlrun/settings.yaml", self.settings / "settings.yaml"

    @property
    def site_path(self) -> tuple[Path, ...]:
        """Directories with site profiles, in order of precedence."""
        own = self.environment.get("DLRUN_SITE_PATH", "").split(os.pathsep)
        return (
            *(expanded(directory) for directory in own if directory),
            self.settings / "sites",
            self.root / "etc/dlrun/sites",
            resources.directory("site-configs"),
        )

    def has(self, program: str) -> bool:
        """Whether a program is on PATH."""
        return shutil.which(program, path=self.environment.get("PATH", os.defpath)) is not None


def available(here: Machine) -> dict[str, Path]:
    """Name -> file of all profiles on the search path; the first of equal names counts."""
    paths: dict[str, Path] = {}
    for directory in here.site_path:
        for path in yaml_files(directory):
            paths.setdefault(path.stem, path)
    return paths


_RECOGNISED = ("auto", "automatic", "default", "detect", "any", "here")
"""Names that people give for `the cluster that I am on`."""
_OF_OTHER_SCHEDULERS = {"fugaku": "pjm", "summit": "lsf", "lassen": "lsf", "sierra": "lsf"}
_CENTRES = {
    "nersc": "perlmutter", "olcf": "frontier", "ornl": "frontier", "alcf": "aurora", "llnl": "elcapitan", "cscs": "daint",
    "csc": "lumi-g", "jsc": "jupiter-booster", "cineca": "leonardo-booster", "tacc": "vista", "ncar": "derecho",
    "epcc": "archer2",
    "hlrs": "hunter", "pawsey": "setonix", "nci": "gadi", "ncsa": "delta", "surf": "snellius",
}  # fmt: skip
"""Centre -> a profile of one of its clusters."""
_ONE_MACHINE = ("local", "localhost", "laptop", "desktop", "none")
"""Words for a machine without a scheduler."""


def locate(name: str, here: Machine, base: Path, *, after: Path | None = None) -> Path | Problem:
    """The file of a profile: `name` is a path relative to `base` if it looks like one, else a site's name.

    after: a profile that extends its own name; only the search path after that file is searched.
    """
    if "/" in name or name.endswith((".yaml", ".yml")):
        path, stem = base / expanded(name), name.rpartition(".")[0]
        if stem in available(here) and fault(path, directory=False) is not None:
            return Problem(
                message=f"there is no file `{name}` here", help=f"the site that dlrun has is `{stem}`"
            )
        return path
    passed = after is None or after.stem != name
    for directory in here.site_path:
        for candidate in (directory / f"{name}.yaml", directory / f"{name}.yml"):
            if passed and (resources.packed(candidate) is not None or os.path.isfile(candidate)):  # noqa: PTH113 - Path.is_file raises if a name is too long
                return candidate
            passed = passed or candidate == after
    if name.lower() in _RECOGNISED:
        return Problem(
            message=f"there is no site `{short(name)}`",
            help="leave `site:` and `--site` out: dlrun then recognises the cluster, and `dlrun site show` prints its profile",
        )
    if fault(base / f"{name}.yaml", directory=False) is None:
        return Problem(
            message=f"there is no site `{short(name)}`", help=f"for the file here write `./{name}.yaml`"
        )
    if "." in name and (file := nearest(name, [path.name for path in yaml_files(base)], cutoff=SLIP)):
        return Problem(
            message=f"there is no site `{short(name)}`", help=f"for the file here write `./{file}`"
        )
    if (scheduler := _OF_OTHER_SCHEDULERS.get(name.lower())) is not None:
        return Problem(
            message=f"there is no site `{short(name)}`",
            help=f"dlrun does not support its scheduler ({UNSUPPORTED[scheduler]})",
        )
    near = (
        _CENTRES.get(name.lower())
        or ("workstation" if name.lower() in _ONE_MACHINE else None)
        or nearest(name, available(here), cutoff=0.7)
    )
    hint = f"the nearest is `{near}`; " if near else ""
    return Problem(
        message=f"there is no site `{short(name)}`", help=f"{hint}`dlrun site list` lists the sites"
    )


def load_site(name: str | Path, *, here: Machine | None = None, because: str = "named by you") -> LoadedSite:
    """A site profile by name or file, with its extended profiles; raises InvalidFile with all problems."""
    here = here or Machine()
    path = locate(str(name), here, Path())
    if isinstance(path, Problem):
        raise InvalidFile([path])
    profile = load_profile(path, here)
    if profile.site is None:
        raise InvalidFile(profile.problems, hide(profile.sources, {}))
    return LoadedSite(site=profile.site, profile=profile, path=path, because=because)


def load_profile(path: Path, here: Machine) -> Profile:
    """A profile with its problems; raises InvalidFile only if the file cannot be read."""

    def find(name: str, by: ProfileText) -> ProfileText | Problem:
        located = locate(name, here, Path(by.name).parent, after=Path(by.name))
        if isinstance(located, Problem):
            return located
        try:
            return ProfileText(name=str(located), text=read_text(located, Layer.SITE))
        except InvalidFile as error:
            return error.problems[0]

    return sites.load(ProfileText(name=str(path), text=read_text(path, Layer.SITE)), find)


def recognise(here: Machine) -> tuple[str, str]:
    """(name of this machine's site, reason)."""
    around = surroundings(here)
    for name, path in available(here).items():
        try:
            rule = sites.recognise_block(read_bytes(path, MAX_BYTES).decode("utf-8"))
        except (OSError, UnicodeDecodeError):
            continue  # `dlrun site check` is for broken profiles of other clusters
        if rule is not None and (because := sites.recognised(rule, around)):
            return name, because
    torque = any((here.root / p).exists() for p in ("var/spool/torque", "etc/torque", "var/lib/torque"))
    return by_client(here.has, here.environment, torque=torque and not _pbs_conf(here).exists())


NO_CLUSTER = "workstation"
CLIENTS = ("sbatch", "qsub", "flux")
"""Programs by which `by_client` recognises a scheduler."""


def by_client(
    has: Callable[[str], bool], variables: Container[str], *, torque: bool = False
) -> tuple[str, str]:
    """(the generic profile of a host whose cluster no profile names, reason): `workstation` without a client.

    has: whether a program is on PATH there; variables: those that are set; torque: its `qsub` is Torque's.
    """
    if has("sbatch"):
        return "generic-slurm", "no profile names this cluster, and `sbatch` is on PATH"
    if has("qsub"):
        if "SGE_ROOT" in variables:  # Grid Engine has a `qsub`, too, with other options
            return (
                "generic-gridengine",
                "no profile names this cluster, `qsub` is on PATH, and SGE_ROOT is set",
            )
        name = "generic-torque" if torque else "generic-openpbs"
        return name, "no profile names this cluster, and `qsub` is on PATH"
    if has("flux"):
        return "generic-flux", "no profile names this cluster, and `flux` is on PATH"
    return NO_CLUSTER, "no scheduler's client is on PATH"


def surroundings(here: Machine) -> Surroundings:
    """The names of this cluster, from files and the environment only."""
    return Surroundings(
        host=here.host,
        cluster_name=_cluster_name(here),
        pbs_server=_pbs_server(here),
        environment=here.environment,
    )


_FLUX_HOSTS = r'"nodelist"\s*:\s*\[\s*"(?:[^"\[]*,)?([A-Za-z](?:-?[A-Za-z])*)-?[\["\d]'
"""The name stem of the compute nodes in Flux's R: of the last name, or before the first bracket."""


def _cluster_name(here: Machine) -> str | None:
    configured = here.environment.get("SLURM_CONF")
    usual = ("etc/slurm/slurm.conf", "run/slurm/conf/slurm.conf", "etc/slurm-llnl/slurm.conf")
    for path in (Path(configured),) if configured else (here.root / p for p in usual):
        if (name := _first(path, r"^\s*ClusterName\s*=\s*([^\s#]+)")) is not None:
            return name
    if cell := here.environment.get("SGE_ROOT"):
        path = Path(cell, here.environment.get("SGE_CELL") or "default", "common/act_qmaster")
        return _first(path, r"^\s*(\S+)")
    return _first(here.root / "etc/flux/system/R", _FLUX_HOSTS)


def _pbs_server(here: Machine) -> str | None:
    for variable in ("PBS_SERVER", "PBS_DEFAULT"):
        if here.environment.get(variable):
            return here.environment[variable]
    return _first(_pbs_conf(here), r"^\s*PBS_SERVER\s*=\s*(\S+)") or _first(
        here.root / "var/spool/torque/server_name", r"^\s*(\S+)"
    )


def _pbs_conf(here: Machine) -> Path:
    return Path(here.environment.get("PBS_CONF_FILE") or here.root / "etc/pbs.conf")


def _first(path: Path, pattern: str) -> str | None:
    """The first group of the first match in a file; None without a file or match."""
    match = re.search(pattern, text_of(path, MAX_BYTES), re.IGNORECASE | re.MULTILINE)
    return match[1] if match else None
