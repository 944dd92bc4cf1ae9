"""What a site forbids, each scheduler in its own options: no name of another scheduler counts, and no way around is left."""

from __future__ import annotations

import pytest

from dlrun.model.problem import InvalidFile
from tests.making import plan_of

PLACES = {
    "slurm": "gpus: gres}\nlauncher: {name: srun}",
    "openpbs": "gpus: ngpus}\nlauncher: {name: openmpi}",
    "torque": "gpus: ngpus}\nlauncher: {name: openmpi}",
    "flux": "gpus: gpus_per_node}\nlauncher: {name: flux}",
    "gridengine": "parallel_environment: mpi, complexes: {memory: ram, gpu: card}}\nlauncher: {name: qrsh}",
}


def problems(tmp_path, scheduler, forbidden, options):
    site = f"name: there\nscheduler: {{type: {scheduler}, forbidden: [{forbidden}], {PLACES[scheduler]}\n"
    try:
        plan_of(tmp_path, f"resources: {{options: {{{options}}}}}", site)
    except InvalidFile as raised:
        return [p.message for p in raised.problems if not p.warning]
    return []


@pytest.mark.parametrize(
    ("scheduler", "forbidden", "options", "named"),
    [
        ("slurm", "memory", "mem-per-cpu: 4G", "`mem-per-cpu` (`memory_per_node`)"),
        ("slurm", "partition", "part: x", "`part` (`partition`)"),
        ("slurm", "qos", "q: high", "`q` (`qos`)"),
        ("slurm", "gpus", "gres: 'nvme:1,gpu:4'", "`gres` (`gpus_per_node`)"),
        ("slurm", "gpus", "tres-per-node: 'gres/gpu:4'", "`tres-per-node` (`gpus_per_node`)"),
        ("openpbs", "account", "P: x", "`P` (`account`)"),
        ("openpbs", "memory", "pmem: 4gb", "`pmem` (`memory_per_node`)"),
        ("openpbs", "memory", "l: 'foo=1,pmem=4gb'", "`l` with `pmem` (`memory_per_node`)"),
        ("openpbs", "walltime", "min_walltime: '1:00:00'", "`min_walltime` (`walltime`)"),
        ("torque", "qos", "W: 'x=QOS:high'", "`W` with `x` (`qos`)"),
        ("gridengine", "memory", "l: h_vmem=64G", "`l` with `h_vmem` (`memory_per_node`)"),
        ("gridengine", "memory", "h_vmem: 64G", "`h_vmem` (`memory_per_node`)"),
        ("gridengine", "memory", "l: 'foo=1,mem_free>=64G'", "`l` with `mem_free` (`memory_per_node`)"),
        ("gridengine", "memory", "l: ram=64G", "`l` with `ram` (`memory_per_node`)"),
        ("gridengine", "gpus", "card: '2'", "`card` (`gpus_per_node`)"),
        ("gridengine", "account", "A: x", "`A` (`account`)"),
        ("flux", "exclusive", "x: 'yes'", "`x` (`exclusive`)"),
        ("flux", "account", "setattr: system.bank=x", "`setattr` with `system.bank` (`account`)"),
    ],
)
def test_an_option_that_sets_what_the_site_forbids_is_refused(scheduler, forbidden, options, named, tmp_path):
    (message,) = problems(tmp_path, scheduler, forbidden, options)
    assert message == f"site `there` does not allow jobs to set the option {named}"


@pytest.mark.parametrize(
    ("scheduler", "forbidden", "options"),
    [
        ("openpbs", "array", "a: '2230'"),
        ("openpbs", "nodes", "C: '#DLRUN'"),
        ("openpbs", "constraint", "C: '#DLRUN'"),
        ("openpbs", "walltime", "l: 'software=walltime_tool'"),
        ("torque", "array", "a: '2230'"),
        ("slurm", "gpus", "gres: 'nvme:1'"),
        ("slurm", "memory", "mem-bind: local"),
        ("slurm", "account", "P: x"),
        ("gridengine", "walltime", "w: e"),
        ("gridengine", "memory", "l: tmpspace=1G"),
        ("gridengine", "partition", "p: '-5'"),
        ("flux", "account", "A: x"),
    ],
)
def test_an_option_that_means_something_else_is_allowed(scheduler, forbidden, options, tmp_path):
    assert problems(tmp_path, scheduler, forbidden, options) == []


@pytest.mark.parametrize(
    ("scheduler", "forbidden", "options", "instead"),
    [
        # The name of the job in Slurm is the array of PBS.
        ("slurm", "array", "J: x", "use name"),
        ("slurm", "array", "job-n: x", "use name"),
        (
            "openpbs",
            "account",
            "l: 'select=2:ncpus=4'",
            "use resources.nodes and the other keys of `resources`",
        ),
        ("openpbs", "account", "W: 'depend=afterok:1'", "use after"),
        ("gridengine", "account", "l: 'h_rt=60,foo=1'", "use resources.walltime"),
    ],
)
def test_what_dlrun_sets_itself_is_refused_with_the_key_for_it(
    scheduler, forbidden, options, instead, tmp_path
):
    site = f"name: there\nscheduler: {{type: {scheduler}, forbidden: [{forbidden}], {PLACES[scheduler]}\n"
    with pytest.raises(InvalidFile) as raised:
        plan_of(tmp_path, f"resources: {{options: {{{options}}}}}", site)
    (problem,) = (p for p in raised.value.problems if not p.warning)
    assert "is set by dlrun" in problem.message
    assert problem.help == instead


def test_another_forbidden_option_is_refused_in_a_list_too(tmp_path):
    site = (
        f"name: there\nscheduler: {{type: gridengine, forbidden_options: [scratch], {PLACES['gridengine']}\n"
    )
    with pytest.raises(InvalidFile) as raised:
        plan_of(tmp_path, "resources: {options: {l: 'foo=1,scratch=2G'}}", site)
    assert [p.message for p in raised.value.problems if not p.warning] == [
        "site `there` does not allow jobs to set the option `l` with `scratch`"
    ]
