"""Which caches of compilers a job gets, by its GPUs and packages; the table and the page about it agree."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from dlrun import backends
from dlrun.model.observed import Installed
from dlrun.model.origin import Layer, Origin
from dlrun.model.program import Environment
from dlrun.model.spec import Spec, Sweep
from dlrun.plan.caches.decide import decide
from dlrun.plan.caches.table import CACHES
from dlrun.plan.decisions import Ledger

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "caches.md"


def chosen(
    *,
    kind: str = "",
    packages: dict[str, str] | None = None,
    framework: str = "torch",
    asked: str = "",
    ranks: int = 2,
    nodes: int | None = None,
    **environment,
) -> set[str]:
    gpus = [SimpleNamespace(kind=kind)] if kind else []
    layout = SimpleNamespace(ranks=ranks, gpus_per_node=len(gpus), topology=SimpleNamespace(gpus=gpus))
    spec = Spec(name="run", command=("x",), sweep=Sweep(nodes=nodes), environment=Environment(**environment))
    choice = SimpleNamespace(framework=backends.framework(framework))
    site = SimpleNamespace(
        storage=SimpleNamespace(node_local=None), environment=SimpleNamespace(variables={})
    )
    ledger = Ledger({"caches": Origin(layer=Layer.SPEC, name="spec.yaml", line=1, column=1)} if asked else {})
    found = decide(spec, site, layout, choice, Installed(packages=packages), ledger)
    return {one.variable for one in found.caches} if found else set()


TORCH = {"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR"}


@pytest.mark.parametrize(
    ("kind", "packages", "expected"),
    [
        ("", None, TORCH),
        ("cuda", None, TORCH | {"CUDA_CACHE_PATH"}),
        ("rocm", None, TORCH | {"MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR", "AMD_COMGR_CACHE_DIR"}),
        ("ze", None, TORCH | {"SYCL_CACHE_DIR"}),
        ("", {"numba": "0.62"}, {"NUMBA_CACHE_DIR"}),
        ("", {"numba": "0.62", "matplotlib": "3.10"}, {"NUMBA_CACHE_DIR", "MPLCONFIGDIR"}),
        ("", {"matplotlib": "3.10"}, set()),
        ("", {"torch-neuronx": "2.8", "torch": "2.8"}, TORCH | {"NEURON_COMPILE_CACHE_URL"}),
        ("", {"tilelang": "0.1.6"}, {"TILELANG_CACHE_DIR"}),
        ("", {"triton": "3.5"}, {"TRITON_CACHE_DIR"}),
        ("cuda", {"torch": "2.9", "flashinfer-python": "0.5"},
         TORCH | {"CUDA_CACHE_PATH", "FLASHINFER_WORKSPACE_BASE", "FLASHINFER_CUBIN_DIR"}),
    ],
)  # fmt: skip
def test_gpus_and_packages_decide(kind, packages, expected):
    assert chosen(kind=kind, packages=packages) == expected


@pytest.mark.parametrize(
    ("packages", "asked", "expected"),
    [
        (None, "", set()),
        (None, "caches: auto", TORCH | {"CUDA_CACHE_PATH"}),
        ({"mpi4py": "4.1"}, "caches: auto", set()),
        ({"torch": "2.9"}, "", TORCH | {"CUDA_CACHE_PATH"}),
    ],
)
def test_a_framework_without_a_compiler_has_those_that_are_installed_or_asked_for(packages, asked, expected):
    assert chosen(kind="cuda", packages=packages, framework="mpi", asked=asked) == expected


@pytest.mark.parametrize(
    ("ranks", "nodes", "expected"), [(1, None, True), (2, None, True), (1, 3, True), (2, 3, False)]
)
def test_ranks_of_a_point_that_runs_beside_others_do_not_share_what_all_must_have(ranks, nodes, expected):
    found = chosen(framework="jax", ranks=ranks, nodes=nodes)
    assert ("JAX_COMPILATION_CACHE_DIR" in found) is expected


def test_what_is_dropped_or_set_is_left_alone():
    assert chosen(drop=("TRITON_CACHE_DIR",), variables={"TORCH_EXTENSIONS_DIR": "/x"}) == {
        "TORCHINDUCTOR_CACHE_DIR"
    }


def test_the_page_lists_the_table():
    rows = [row for row in PAGE.read_text().splitlines() if row.startswith("|")]
    listed = {name: row.split(" | ")[2] for row in rows for name in re.findall(r"`([A-Z_]+)`", row)}
    assert listed == {cache.variable: cache.since or "unknown" for cache in CACHES}
    assert all(cache.source.startswith("https://") for cache in CACHES)
