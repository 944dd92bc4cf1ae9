"""Recognise the site of a login node, by its name in a profile, else by its facts."""

from __future__ import annotations

from dlrun.config import sites
from dlrun.config.sites import Surroundings
from dlrun.errors import Invalid
from dlrun.jobs.remote.steps import Facts
from dlrun.system.inputs.profiles import CLIENTS, NO_CLUSTER, Machine, available, by_client, load_profile


def site_of_host(host: str) -> str | None:
    """The site whose profile has this login node, or None; needs no connection."""
    return _matching(Surroundings(host=host.rpartition("@")[2]), login=host)


def site_of(facts: Facts, host: str) -> str:
    """The site of a login node, from its facts; raises Invalid if it has no scheduler."""
    around = Surroundings(host=facts.host, cluster_name=facts.cluster_name, pbs_server=facts.pbs_server)
    if (site := _matching(around)) is not None:
        return site
    generic, _ = by_client(facts.clients.__contains__, facts.variables)
    if generic != NO_CLUSTER:
        return generic
    raise Invalid(
        f"`{host}` has none of `{'`, `'.join(CLIENTS[:-1])}` and `{CLIENTS[-1]}` in a login shell",
        help="load what has them in your `~/.bash_profile` there, and name the site with `--site`",
    )


def _matching(around: Surroundings, *, login: str | None = None) -> str | None:
    """The first profile that matches these names."""
    here = Machine()
    for site, path in available(here).items():
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        rule = sites.recognise_block(text)
        if rule is not None and sites.recognised(rule, around):
            return site
        if login is not None and f"host: {login}\n" in text:  # cheap test before parsing the profile
            profile = load_profile(path, here).site
            if profile is not None and profile.login is not None and profile.login.host == login:
                return site
    return None
