"""Reading a spec with all that goes with it from disk, and finding the site of this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dlrun import backends
from dlrun.model.origin import Layer
from dlrun.model.problem import InvalidFile
from dlrun.system.inputs import profiles
from dlrun.system.inputs.profiles import Machine
from dlrun.system.inputs.spec import load_site, load_spec, topology_for_site, topology_for_spec

SPEC = "name: x\ncommand: [python, train.py]\n"
SITE = "name: {name}\nscheduler: {{type: slurm}}\nlauncher: {{name: srun}}\n"


class FakeMachine:
    """A directory that stands for a machine: its root, a home, programs on PATH."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.environment: dict[str, str] = {"PATH": str(top / "bin")}
        self.host = "node1"

    def write(self, name: str, text: str) -> Path:
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def install(self, *programs: str) -> None:
        for program in programs:
            self.write(f"bin/{program}", "#!/bin/sh\nexit 1\n").chmod(0o755)

    @property
    def here(self) -> Machine:
        return Machine(
            environment=self.environment, home=self.top / "home", root=self.top / "root", host=self.host
        )

    def load(self, text: str = SPEC, **arguments):
        path = self.write("work/spec.yaml", text)
        return load_spec(path, options=backends.framework_options, here=self.here, **arguments)

    def faults(self, text: str = SPEC, **arguments):
        with pytest.raises(InvalidFile) as raised:
            self.load(text, **arguments)
        return raised.value


@pytest.fixture
def machine(tmp_path):
    return FakeMachine(tmp_path)


def test_everything_in_layers(machine):
    machine.write("home/.config/dlrun/settings.yaml", "resources: {account: me, qos: low}\nsite: mine\n")
    machine.write(
        "home/.config/dlrun/sites/mine.yaml",
        SITE.format(name="mine") + "defaults: {resources: {qos: site, partition: p}}\n",
    )
    machine.environment["DLRUN_SET_RESOURCES__NODES"] = "3"
    found = machine.load(SPEC + "resources: {nodes: 2, walltime: 1h}\n", sets=["torch.agent=true"])
    resources = found.spec.resources
    assert (resources.account, resources.qos, resources.partition, resources.nodes) == ("me", "low", "p", 3)
    assert found.spec.options["agent"] is True
    assert found.site.name == "mine"
    assert {
        key: found.origins[f"resources.{key}"].layer for key in ("account", "partition", "nodes", "walltime")
    } == {
        "account": Layer.USER,
        "partition": Layer.SITE,
        "nodes": Layer.ENVIRONMENT,
        "walltime": Layer.SPEC,
    }
    assert found.history["resources.nodes"][0].text == "2"
    assert found.directory == machine.top / "work"
    assert found.sources[str(found.path)].startswith("name: x")
    assert str(found.loaded.path) in found.sources


def test_settings_of_xdg(machine):
    machine.write("config/dlrun/settings.yaml", "resources: {account: me}\n")
    machine.environment["XDG_CONFIG_HOME"] = str(machine.top / "config")
    assert machine.load().spec.resources.account == "me"


def test_settings_of_the_centre_are_weaker_than_those_of_the_user(machine):
    machine.write(
        "root/etc/dlrun/settings.yaml", "resources: {account: centre, qos: low}\nsite: ./sites/mine.yaml\n"
    )
    machine.write("root/etc/dlrun/sites/mine.yaml", SITE.format(name="mine"))
    machine.write("home/.config/dlrun/settings.yaml", "resources: {account: me}\n")
    found = machine.load()
    assert (found.spec.resources.account, found.spec.resources.qos) == ("me", "low")
    assert found.site.name == "mine", "a relative path starts at the file that names it"
    assert found.history["resources.account"][0].text == "centre"


def test_faults_of_all_files_come_together(machine):
    machine.write("home/.config/dlrun/settings.yaml", "resources: {acount: me}\n")
    machine.write("home/.config/dlrun/sites/mine.yaml", SITE.format(name="mine") + "fabrik: x\n")
    error = machine.faults(SPEC + "zzz: 1\nsite: mine\n", sets=["resources.nodes=0"])
    assert len(error.problems) == 4
    assert {Path(p.origin.name).name for p in error.problems} == {
        "settings.yaml",
        "mine.yaml",
        "spec.yaml",
        "--set resources.nodes=0",
    }


@pytest.mark.parametrize(
    ("flag", "variable", "spec", "settings", "expected"),
    [
        ("a", "b", "c", "d", "a"),
        (None, "b", "c", "d", "c"),
        (None, "b", None, "d", "b"),
        (None, None, None, "d", "d"),
        (None, None, None, None, "workstation"),
    ],
)
def test_who_names_the_site(machine, flag, variable, spec, settings, expected):
    for name in "abcd":
        machine.write(f"home/.config/dlrun/sites/{name}.yaml", SITE.format(name=name))
    if variable:
        machine.environment["DLRUN_SITE"] = variable
    if settings:
        machine.write("home/.config/dlrun/settings.yaml", f"site: {settings}\n")
    found = machine.load(SPEC + (f"site: {spec}\n" if spec else ""), site=flag)
    assert found.site.name == expected


def test_a_site_file_is_seen_from_the_spec(machine):
    machine.write("work/sites/mine.yaml", SITE.format(name="mine"))
    assert machine.load(SPEC + "site: sites/mine.yaml\n").site.name == "mine"


def test_search_path(machine):
    for place in ("own", "home/.config/dlrun/sites", "root/etc/dlrun/sites"):
        machine.write(f"{place}/mine.yaml", SITE.format(name="mine") + f"title: {place}\n")
    machine.environment["DLRUN_SITE_PATH"] = f"{machine.top}/none:{machine.top}/own"
    assert load_site("mine", here=machine.here).site.title == "own"
    del machine.environment["DLRUN_SITE_PATH"]
    assert load_site("mine", here=machine.here).site.title == "home/.config/dlrun/sites"
    assert profiles.available(machine.here)["mine"] == machine.top / "home/.config/dlrun/sites/mine.yaml"
    assert "workstation" in profiles.available(machine.here)


def test_an_override_extends_the_profile_behind_it(machine):
    machine.write(
        "home/.config/dlrun/sites/workstation.yaml", "name: workstation\nextends: workstation\nnote: mine\n"
    )
    loaded = load_site("workstation", here=machine.here)
    assert (loaded.site.note, loaded.site.scheduler.type) == ("mine", "local")
    assert len(loaded.profile.sources) == 2


def test_a_base_is_seen_from_the_profile(machine):
    machine.write("sites/base/b.yaml", SITE.format(name="b"))
    path = machine.write("sites/a.yaml", "name: a\nextends: base/b.yaml\n")
    assert load_site(path, here=machine.here).site.scheduler.type == "slurm"


def test_unknown_site(machine):
    with pytest.raises(InvalidFile) as raised:
        load_site("workstaton", here=machine.here)
    assert raised.value.help == "the nearest is `workstation`; `dlrun site list` lists the sites"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("root/etc/slurm/slurm.conf", "# x\nclustername = lumi # y\n"),
        ("root/run/slurm/conf/slurm.conf", "ClusterName=lumi\n"),
    ],
)
def test_slurm_cluster_is_recognised_without_calling_it(machine, file, text):
    machine.write(file, text)
    machine.install("sbatch", "scontrol")
    machine.write(
        "home/.config/dlrun/sites/lumi.yaml", SITE.format(name="lumi") + "recognise: {cluster_name: lumi}\n"
    )
    found = machine.load()
    assert (found.site.name, found.loaded.because) == ("lumi", "Slurm's ClusterName is `lumi`")


def test_slurm_conf_variable_counts(machine):
    machine.write("root/etc/slurm/slurm.conf", "ClusterName=wrong\n")
    machine.environment["SLURM_CONF"] = str(machine.write("slurm.conf", "ClusterName=right\n"))
    assert profiles.surroundings(machine.here).cluster_name == "right"


def test_pbs_server_is_recognised(machine):
    machine.write(
        "home/.config/dlrun/sites/gadi.yaml", SITE.format(name="gadi") + "recognise: {pbs_server: pbs1}\n"
    )
    machine.write("root/etc/pbs.conf", "PBS_EXEC=/opt/pbs\nPBS_SERVER=pbs1.example.org\n")
    assert profiles.recognise(machine.here)[0] == "gadi"
    machine.environment["PBS_SERVER"] = "other"
    assert profiles.recognise(machine.here)[0] == "workstation"


def test_host_name_is_recognised(machine):
    machine.write(
        "home/.config/dlrun/sites/x.yaml", SITE.format(name="x") + "recognise: {hosts: ['login*.x.org']}\n"
    )
    machine.host = "login3.x.org"
    assert profiles.recognise(machine.here) == ("x", "the host name `login3.x.org` matches `login*.x.org`")


def test_a_broken_profile_of_another_cluster_does_no_harm(machine):
    machine.write("home/.config/dlrun/sites/broken.yaml", "recognise: [\n")
    (machine.top / "home/.config/dlrun/sites/binary.yaml").write_bytes(b"\xff\xfe\x00")
    assert machine.load().site.name == "workstation"


@pytest.mark.parametrize(
    ("programs", "files", "expected"),
    [
        ((), (), "workstation"),
        (("sbatch",), (), "generic-slurm"),
        (("sbatch", "qsub"), (), "generic-slurm"),
        (("qsub",), (), "generic-openpbs"),
        (("qsub",), ("etc/pbs.conf",), "generic-openpbs"),
        (("qsub",), ("var/spool/torque/server_name",), "generic-torque"),
        (("flux",), (), "generic-flux"),
        (("flux", "sbatch"), (), "generic-slurm"),
    ],
)
def test_an_unknown_cluster_is_taken_by_its_clients(machine, programs, files, expected):
    machine.install(*programs)
    for file in files:
        machine.write(f"root/{file}", "PBS_SERVER=x\n")
    assert profiles.recognise(machine.here)[0] == expected
    assert load_site(expected, here=machine.here).site.name == expected


def test_qsub_of_grid_engine_is_known_by_its_variable(machine):
    machine.install("qsub")
    machine.environment["SGE_ROOT"] = "/opt/sge"
    assert profiles.recognise(machine.here)[0] == "generic-gridengine"
    assert load_site("generic-gridengine", here=machine.here).site.name == "generic-gridengine"


@pytest.mark.parametrize(
    "name",
    [
        "x" * 5000,
        "x" * 5000 + ".yaml",
        "a\0b",
        "./a\0b",
        "~nobody-here/x.yaml",
        "~nobody-here",
        "",
        ".",
        "/",
        "/dev/null",
    ],
)
def test_site_names_that_no_file_can_have(machine, name):
    with pytest.raises(InvalidFile):
        load_site(name, here=machine.here)
    with pytest.raises(InvalidFile):
        machine.load(site=name)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "there is no such file"),
        (lambda path: path.mkdir(), "it is a directory"),
        (lambda path: path.symlink_to(path), "too many levels of symbolic links"),
    ],
)
def test_files_that_cannot_be_read(machine, make, message):
    path = machine.top / "spec.yaml"
    make(path)
    with pytest.raises(InvalidFile) as raised:
        load_spec(path, options=backends.framework_options, here=machine.here)
    assert raised.value.message == f"cannot read `{path}`: {message}"
    assert raised.value.exit_code == 2


def test_a_directory_is_answered_with_the_file_in_it(machine):
    path = machine.write("job/spec.yaml", SPEC)
    with pytest.raises(InvalidFile) as raised:
        load_spec(path.parent, options=backends.framework_options, here=machine.here)
    assert raised.value.help == f"name a file in it, such as `{path}`"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_an_unreadable_file(machine):
    path = machine.write("spec.yaml", SPEC)
    path.chmod(0)
    with pytest.raises(InvalidFile, match="permission denied"):
        load_spec(path, options=backends.framework_options, here=machine.here)


def test_the_nearest_file_is_named(machine):
    path = machine.write("train.yaml", SPEC)
    with pytest.raises(InvalidFile) as raised:
        load_spec(path.with_name("trian.yaml"), options=backends.framework_options, here=machine.here)
    assert raised.value.help == f"the nearest is `{path}`"


def test_a_file_of_more_than_a_mebibyte(machine):
    assert machine.faults("x" * (2**20 + 1)).message == "the file is longer than 1 MiB"


def test_unknown_frameworks_are_told_with_the_other_faults(machine):
    error = machine.faults(SPEC + "framework: toch\nzzz: 1\n")
    assert [p.message for p in error.problems] == [
        "dlrun does not support the framework `toch`",
        "unknown key `zzz`",
    ]


def test_the_workstation_is_this_machine(machine):
    found = machine.load()
    assert (found.site.scheduler.type, found.site.launcher.name, found.site.rendezvous.address) == (
        "local",
        "local",
        "loopback",
    )
    topology = topology_for_spec(found)
    assert set(topology.pus()) >= os.sched_getaffinity(0)


def test_topology_by_numbers_and_from_a_capture(machine):
    machine.write("sites/node.lscpu", "# CPU,Core,Socket,Node\n0,0,0,0\n1,1,0,0\n")
    node_types = (
        "node_types:\n  a: {topology: {packages: 2, cores: 4}}\n  b: {capture: node.lscpu}\n"
        "  c: {}\n  d: {capture: none}\n"
    )
    path = machine.write("sites/base.yaml", SITE.format(name="base") + node_types)
    loaded = load_site(machine.write("child.yaml", f"name: child\nextends: {path}\n"), here=machine.here)
    assert len(topology_for_site(loaded, "a").cores) == 8
    assert len(topology_for_site(loaded, "b").cores) == 2
    assert topology_for_site(loaded, "c") is None
    assert topology_for_site(loaded, "unknown") is None
    assert topology_for_site(loaded, None) is None
    with pytest.raises(InvalidFile) as raised:
        topology_for_site(loaded, "d")
    assert (raised.value.problems[0].origin.name, raised.value.problems[0].origin.line) == (str(path), 8)
