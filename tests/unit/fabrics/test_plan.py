"""What fabric settings do to a plan: variables with reason and source, and problems where they are written."""

from __future__ import annotations

import re

import pytest

from dlrun.cli import main as cli
from dlrun.model.problem import InvalidFile
from dlrun.site.profile import check as site_check
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
    assert found["FI_MR_CACHE_MONITOR"].because.startswith("site crag sets it")
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
    assert [warning for warning in found.warnings if "FI_MR_CACHE_MONITOR" in warning]


def test_explain_knows_settings_that_nobody_set(tmp_path, monkeypatch, capsys):
    assert cli.run(["explain", "NCCL_CROSS_NIC"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("NCCL_CROSS_NIC\n  does:     whether a ring or tree may enter a node by one NIC")
    assert "safe, nccl and rccl on slingshot, with several nodes" in shown
    plan(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert cli.run(["explain", "NCCL_CROSS_NIC", "spec.yaml"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("NCCL_CROSS_NIC (every process) = 1\n")
    assert "\n  does:     whether a ring or tree may" in shown
    assert "documented value of NCCL_CROSS_NIC: 0" in shown
    assert cli.run(["explain", "NCCL_IB_TIMEOUT", "spec.yaml"]) == 0
    assert re.match(
        "NCCL_IB_TIMEOUT\n  does: .*\n  because:  this plan does not set it\n", capsys.readouterr().out
    )
    assert cli.run(["explain", "NCCL_CROS_NIC"]) == 2
    assert "the nearest is `NCCL_CROSS_NIC`" in capsys.readouterr().err


OMNI_PATH = """\
name: crag
scheduler: {type: slurm, version: "24.05", exclusive: true}
launcher: {name: srun}
node_types:
  gpu: {topology: {cores: 8, gpus: {count: 2, numa: [0]}}}
fabric: {name: omni-path, libraries: [psm2-nccl]}
environment: {variables: {SITE_WIDE: "1"}}
"""
RESOURCES = "framework: torch\nresources: {nodes: 2}\n"


def test_a_user_can_leave_any_variable_unset(tmp_path):
    spec = "environment: {drop: [NCCL_CROSS_NIC, PYTHONUNBUFFERED, NCCL_NET], setup: [source mine.sh]}"
    found = plan(tmp_path, spec)
    assert not {"NCCL_CROSS_NIC", "PYTHONUNBUFFERED", "NCCL_NET"} & set(variables(found))
    assert "NCCL_NET_GDR_LEVEL" in variables(found), "the others stay"
    decided = {d.key: d for d in found.decisions if d.rule == "user-drop"}
    assert set(decided) == {
        f"variables.{name}" for name in ("NCCL_CROSS_NIC", "PYTHONUNBUFFERED", "NCCL_NET")
    }
    assert "otherwise 1" in decided["variables.NCCL_CROSS_NIC"].because
    assert str(decided["variables.NCCL_NET"].origin).startswith("spec.yaml:4:")
    assert found.environment.setup == (
        "source mine.sh",
        "unset -v NCCL_CROSS_NIC PYTHONUNBUFFERED NCCL_NET",
    ), "a module may set it"


def test_a_unit_that_loses_one_setting_loses_all_and_says_so(tmp_path):
    whole = plan_of(tmp_path, RESOURCES, OMNI_PATH)
    unit = {"NCCL_PROTO", "NCCL_NET_GDR_READ", "NCCL_CUMEM_ENABLE"}
    assert unit < set(variables(whole))
    part = plan_of(tmp_path, f"{RESOURCES}environment: {{drop: [NCCL_PROTO, SITE_WIDE]}}", OMNI_PATH)
    assert not {*unit, "SITE_WIDE"} & set(variables(part))
    (warning,) = (warning for warning in part.warnings if "DLR065" in warning)
    assert "`NCCL_NET_GDR_READ` and `NCCL_CUMEM_ENABLE` are not set either" in warning
    reasons = {d.key: d.because for d in part.decisions}
    assert "belongs to the same unit as `NCCL_PROTO`" in reasons["variables.NCCL_CUMEM_ENABLE"]
    spec = f"{RESOURCES}environment: {{drop: [{', '.join(unit)}]}}"
    assert plan_of(tmp_path, spec, OMNI_PATH).warnings == ()


@pytest.mark.parametrize("dropped", ["FI_CXI_RDZV_PROTO", "FI_CXI_RDZV_THRESHOLD"])
def test_no_half_of_a_pair_is_left(tmp_path, dropped):
    more = "  settings: {FI_CXI_RDZV_PROTO: alt_read}\n"
    whole = variables(plan(tmp_path, more=more, directives=FLAG))
    assert {"FI_CXI_RDZV_PROTO", "FI_CXI_RDZV_THRESHOLD", "FI_CXI_RDZV_EAGER_SIZE"} < set(whole)
    spec = f"environment: {{drop: [{dropped}]}}"
    left = variables(plan(tmp_path, spec, more=more, directives=FLAG))
    assert not {name for name in left if name.startswith("FI_CXI_RDZV")}


def test_what_is_dropped_is_not_warned_of_and_ranks_keep_what_they_need(tmp_path):
    both = "environment: {drop: [NCCL_P2P_DISABLE], variables: {NCCL_P2P_DISABLE: '1'}}"
    found = plan(tmp_path, both)
    assert "NCCL_P2P_DISABLE" not in variables(found)
    (warning,) = found.warnings
    assert "DLR069" in warning
    (problem,) = problems(tmp_path, "environment: {drop: [RANK]}")
    assert (problem.code, problem.warning, problem.origin.line) == ("DLR069", False, 4)


def test_explain_tells_who_left_a_variable_unset(tmp_path, monkeypatch, capsys):
    plan(tmp_path, "environment: {drop: [NCCL_CROSS_NIC]}")
    monkeypatch.chdir(tmp_path)
    assert cli.run(["explain", "NCCL_CROSS_NIC", "spec.yaml"]) == 0
    shown = capsys.readouterr().out
    assert "left unset by the spec (otherwise 1" in shown
    assert "spec.yaml:4:" in shown


PLAIN = "name: bare\nscheduler: {type: slurm}\nlauncher: {name: intelmpi}\n"
GPUS = "framework: torch\nresources: {nodes: 2, gpus_per_node: 4}\n"


@pytest.mark.parametrize(
    ("name", "value", "code", "says"),
    [
        ("NCCL_ASYNC_ERROR_HANDLING", "1", "DLR061", "use TORCH_NCCL_ASYNC_ERROR_HANDLING"),
        ("I_MPI_FABRICS", "shm:tmi", "DLR061", "shm:ofi"),
        ("NCCL_IB_TIMEOUT", "50", "DLR060", "infinite"),
        ("NCCL_IB_DISABLE", "1", "DLR060", "NCCL_IB_DISABLE=1"),
        ("NCCL_PROTO", "LL128", "DLR060", "corrupt"),
        ("NCCL_ALGO", "ring", "DLR060", "NCCL_ALGO=ring"),
        ("NCCL_IB_GDR_LEVEL", "3", "DLR061", "NCCL_NET_GDR_LEVEL"),
        ("NCCL_MIN_NRINGS", "4", "DLR061", "NCCL_MIN_CTAS"),
        ("CUDA_LAUNCH_BLOCKING", "1", "DLR060", "for debugging only"),
    ],
)
def test_known_bad_settings_are_told_in_spec_and_profile_alike(tmp_path, name, value, code, says):
    by_user = plan_of(tmp_path, f"{GPUS}environment: {{variables: {{{name}: '{value}'}}}}", PLAIN).warnings
    profile = PLAIN + f"fabric: {{name: infiniband, settings: {{{name}: '{value}'}}}}\n"
    by_site = plan_of(tmp_path, GPUS, profile).warnings
    checked = [p for p in site_check.check_profile(str(tmp_path / "site.yaml")).problems if p.code == code]
    for said in (
        " ".join(by_user),
        " ".join(by_site),
        " ".join(f"{p.code} {p.message} {p.help}" for p in checked),
    ):
        assert code in said
        assert says.lower() in said.lower()
