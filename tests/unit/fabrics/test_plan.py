"""What fabric settings do to a plan: variables with reason and source, and problems where they are written."""

from __future__ import annotations

import pytest

from dlrun.cli import main as cli
from dlrun.model.problem import InvalidFile
from tests.making import plan_of

SITE = """\
name: crag
scheduler: {{type: slurm, version: "24.05", exclusive: true{directives}}}
launcher: {{name: srun}}
node_types:
  gpu: {{topology: {{cores: 8, gpus: {{count: 2, kind: rocm, numa: [0]}}}}}}
fabric:
  name: slingshot
  interfaces: [hsn0, hsn1]
{more}"""
FLAG = ", directives: [--network=disable_rdzv_get]"


def plan(tmp_path, spec="", *, more="", directives="", nodes=2):
    text = f"framework: torch\nresources: {{nodes: {nodes}}}\n{spec}"
    return plan_of(tmp_path, text, SITE.format(more=more, directives=directives))


def variables(plan):
    return {v.name: v for v in plan.variables}


def problems(tmp_path, *args, **more):
    with pytest.raises(InvalidFile) as caught:
        plan(tmp_path, *args, **more)
    return caught.value.problems


def test_each_variable_carries_its_reason_and_source(tmp_path):
    found = {k: v for k, v in variables(plan(tmp_path)).items() if v.rule.startswith("fabric-")}
    assert {"NCCL_CROSS_NIC", "FI_CXI_RX_MATCH_MODE", "HSA_FORCE_FINE_GRAIN_PCIE"} < set(found)
    assert all(v.because and v.source for v in found.values())
    assert str(found["NCCL_SOCKET_IFNAME"].value) == "hsn0,hsn1"


def test_what_the_site_sets_and_drops(tmp_path):
    more = """\
  settings: {FI_MR_CACHE_MONITOR: kdreg2, NCCL_NET: OFI}
  multi_node: {SITE_FABRIC: wide}
  drop: [FI_CXI_DEFAULT_TX_SIZE]
"""
    found = variables(wide := plan(tmp_path, more=more))
    assert str(found["FI_MR_CACHE_MONITOR"].value) == "kdreg2"
    assert found["FI_MR_CACHE_MONITOR"].because.startswith("crag sets it")
    assert "FI_CXI_DEFAULT_TX_SIZE" not in found
    assert "SITE_FABRIC" in found
    assert "NCCL_NET" not in found, "the profile does not say that the plugin is there"
    (decision,) = [d for d in wide.decisions if d.key == "fabric.settings.NCCL_NET"]
    assert "aws-ofi-nccl" in decision.because
    assert "SITE_FABRIC" not in variables(plan(tmp_path, more=more, nodes=1))


def test_the_user_has_the_last_word(tmp_path):
    found = variables(plan(tmp_path, "environment: {variables: {NCCL_CROSS_NIC: '0'}}"))["NCCL_CROSS_NIC"]
    assert str(found.value) == "0"
    assert "dlrun would have set 1" in found.because


def test_harmful_and_deprecated_settings_are_warned_of(tmp_path):
    found = plan(
        tmp_path, "environment: {variables: {NCCL_ASYNC_ERROR_HANDLING: '1', NCCL_P2P_DISABLE: '1'}}"
    )
    deprecated, harmful = sorted(found.warnings, key=lambda w: "P2P" in w)
    assert "DLR061" in deprecated
    assert "TORCH_NCCL_ASYNC_ERROR_HANDLING" in deprecated
    assert "DLR060" in harmful
    assert "env.rst" in harmful


def test_a_profiles_own_are_warned_of_too(tmp_path):
    (warning,) = plan(tmp_path, more="  settings: {FI_CXI_DISABLE_CQ_HUGETLB: '1'}\n").warnings
    assert "site `crag` sets `FI_CXI_DISABLE_CQ_HUGETLB=1`" in warning


def test_what_deadlocks_is_refused_where_it_is_written(tmp_path):
    (problem,) = problems(tmp_path, "environment:\n  variables: {FI_MR_CACHE_MONITOR: memhooks}")
    assert (problem.code, problem.warning) == ("DLR062", False)
    assert str(problem.origin).startswith("spec.yaml:5:")
    (problem,) = problems(tmp_path, "environment: {variables: {NCCL_NET: OFI}}", nodes=1)
    assert problem.code == "DLR062"


def test_half_a_pair_is_refused(tmp_path):
    user = "environment: {variables: {FI_CXI_RDZV_PROTO: alt_read}}"
    (problem,) = problems(tmp_path, user)
    assert problem.code == "DLR063"
    assert "options: {network: disable_rdzv_get}" in problem.help
    assert problem.origin is not None
    whole = variables(plan(tmp_path, user, directives=FLAG))
    assert str(whole["FI_CXI_RDZV_THRESHOLD"].value) == "0"
    (problem,) = problems(tmp_path, more="  settings: {FI_CXI_RDZV_PROTO: alt_read}\n")
    assert problem.code == "DLR063"


def test_an_unknown_fabric_sets_nothing_and_refuses_nothing(tmp_path):
    site = "name: bare\nscheduler: {type: slurm}\nlauncher: {name: srun}\n"
    spec = "framework: torch\nresources: {nodes: 2, gpus_per_node: 4}\nenvironment: {variables: {FI_MR_CACHE_MONITOR: memhooks}}"
    found = plan_of(tmp_path, spec, site)
    assert "NCCL_DEBUG" not in variables(found)
    assert len(found.warnings) == 1


def test_explain_knows_settings_that_nobody_set(tmp_path, monkeypatch, capsys):
    assert cli.run(["explain", "NCCL_CROSS_NIC"]) == 0
    assert "safe, rccl on slingshot, with several nodes" in capsys.readouterr().out
    plan(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert cli.run(["explain", "NCCL_CROSS_NIC", "spec.yaml"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("NCCL_CROSS_NIC (every process) = 1\n")
    assert "known of NCCL_CROSS_NIC=0" in shown
    assert cli.run(["explain", "NCCL_IB_TIMEOUT", "spec.yaml"]) == 0
    assert capsys.readouterr().out.startswith("NCCL_IB_TIMEOUT\n  because:  this plan does not set it\n")
    assert cli.run(["explain", "NCCL_NO_SUCH"]) == 2
