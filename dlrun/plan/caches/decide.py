"""Which caches of compilers a job moves to node-local storage, and where they lie."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha256

from dlrun.model.data import CachePlan, CachesPlan
from dlrun.model.observed import Installed
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.text import Shell, Text, expanding
from dlrun.plan.caches.table import CACHES, Cache
from dlrun.plan.decisions import Ledger
from dlrun.plan.resources import Layout
from dlrun.plan.roles import BackEnds

_PLACES = {
    "node": "$DLRUN_CACHES/{}",
    "rank": "$DLRUN_CACHES/{}/$DLRUN_LOCAL_RANK",
    "run": "$DLRUN_CACHES/{}",
}
_USUAL = ("torch",)
"""Packages whose caches are named in a job that asks for them, if it is unknown what is installed."""


def decide(
    spec: Spec, site: Site, layout: Layout, choice: BackEnds, installed: Installed, ledger: Ledger
) -> CachesPlan | None:
    """The caches of a job, each with its reason in the ledger; None with `caches: off`, and where nothing compiles.

    If it is unknown what is installed, a job has the compilers of its framework; with `auto` in the spec also those of PyTorch.
    """
    if spec.caches == "off":
        return None
    compiles, asked = choice.framework.COMPILES, ledger.given("caches")
    if asked:
        ledger.take("caches", spec.caches)
        compiles = (*compiles, *_USUAL)
    if not any(_has(cache, compiles, installed) for cache in CACHES if cache.packages and cache.compiles):
        return None
    local = site.storage.node_local
    # By nodes, whose compilers may break one another there.
    shared = local is not None and local.scope == "job"
    base = Text.of(Shell("${TMPDIR:-/tmp}")) if local is None or shared else expanding(local.path)
    chosen = []
    for cache in CACHES:
        # The ranks of a point would meet entries of another point of their node.
        if cache.each == "run" and (shared or (spec.sweep.nodes is not None and layout.ranks > 1)):
            continue
        if cache.variable in (
            *spec.environment.variables,
            *site.environment.variables,
            *spec.environment.drop,
        ):
            continue
        why = _used(cache, layout, compiles, installed)
        if why is None:
            continue
        unless = "" if asked and not cache.settings else cache.unless
        chosen.append(
            CachePlan(
                variable=cache.variable,
                directory=cache.directory,
                each=cache.each,
                unless=unless,
                switch=cache.switch,
            )
        )
        ledger.decide(
            f"caches.{cache.variable}",
            _PLACES[cache.each].format(cache.directory),
            f"cache-of-{cache.each}",
            f"{why}{f', unless ~/{unless} has entries' if unless else ''}; {cache.because}; otherwise in {cache.default} "
            f"[{cache.source}]",
        )
    if not chosen:
        return None
    return CachesPlan(
        base=base,
        key=_key(spec, installed),
        caches=tuple(chosen),
        keep=not shared,
        place="" if spec.caches == "auto" else spec.caches.rstrip("/"),
    )


def _has(cache: Cache, compiles: Collection[str], installed: Installed) -> bool:
    """Whether a job has what compiles: one of the packages, or a part of the GPU's software."""
    has = compiles if installed.packages is None else installed.packages
    return not cache.packages or any(package in has for package in cache.packages)


def _used(cache: Cache, layout: Layout, compiles: Collection[str], installed: Installed) -> str | None:
    """Why a job gets this cache; None if it does not."""
    # A node type without GPUs of its own in the profile is taken for one of the most common kind.
    kind = layout.topology.gpus[0].kind if layout.topology is not None and layout.topology.gpus else "cuda"
    if cache.gpus and (not layout.gpus_per_node or cache.gpus != kind):
        return None
    if not _has(cache, compiles, installed):
        return None
    seen = next((package for package in cache.packages if installed.has(package)), None)
    known = f"`{seen}` is installed" if seen is not None else "where the program uses it"
    each = {"rank": "a directory for each rank", "run": "a directory of the run on each node"}.get(
        cache.each, "a directory of the node"
    )
    return f"what {cache.tool} compiles is kept in {each} ({known})"


def _key(spec: Spec, installed: Installed) -> str:
    """A name for the environment: not all tools tell entries of another version of themselves apart."""
    named = spec.environment
    image = named.container.image if named.container is not None else None
    packages = installed.packages or {}
    versions = [
        (name, packages[name])
        for name in sorted({package for cache in CACHES for package in cache.packages})
        if name in packages
    ]
    parts = (named.modules, named.venv, named.conda, named.setup, image, versions)
    return sha256(repr(parts).encode("utf-8", "surrogateescape")).hexdigest()[:12]
