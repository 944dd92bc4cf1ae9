"""`caches: auto`: what compilers keep lies in private directories of the node, and what is set already is kept."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOW = "caches: auto\nrun: 'env | grep -E \"^(TRITON|TORCH|FLASHINFER|TVM|VLLM|DLRUN_CACHES)\" | sort'\nusage: false\n"


@pytest.fixture
def here(dlrun):
    """A site with node-local storage; the caches' directory of this user there."""
    local = dlrun.place / "local disk"
    local.mkdir()
    (dlrun.place / "site.yaml").write_text(
        "name: here\nscheduler: {type: local}\nlauncher: {name: local}\nrendezvous: {address: loopback}\n"
        f"storage: {{node_local: {{path: '{local}', size: 1TB}}}}\n"
    )
    return local


def variables(job, rank=0) -> dict[str, str]:
    lines = (job / "logs" / f"rank-{rank}.log").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("dlrun"))


@pytest.mark.slow
def test_each_tool_has_a_private_directory_before_the_ranks_start(dlrun, here):
    job = dlrun.submit(f"site: site.yaml\nresources: {{ranks_per_node: 2}}\n{SHOW}", "--wait")
    first, second = variables(job), variables(job, 1)
    place = Path(first["DLRUN_CACHES"])
    assert place.parent.parent == here
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR"):
        assert Path(first[name]).is_dir()
        assert Path(first[name]).parent == place
        assert second[name] == first[name]


def installed(dlrun, *packages) -> None:
    place = dlrun.place / "env/lib/python3.11/site-packages"
    for name in packages:
        (place / f"{name}.dist-info").mkdir(parents=True)
    (dlrun.place / "env/bin").mkdir()
    (dlrun.place / "env/bin/activate").write_text("")


@pytest.mark.slow
def test_ranks_that_would_break_one_another_have_their_own(dlrun, here):
    installed(dlrun, "flashinfer_python-0.5.2", "apache_tvm_ffi-0.1.15", "vllm-0.11.0")
    job = dlrun.submit(
        f"site: site.yaml\nenvironment: {{venv: env}}\nresources: {{ranks_per_node: 2}}\n{SHOW}", "--wait"
    )
    first, second = variables(job), variables(job, 1)
    assert first["FLASHINFER_WORKSPACE_BASE"] != second["FLASHINFER_WORKSPACE_BASE"]
    assert first["FLASHINFER_CUBIN_DIR"] == second["FLASHINFER_CUBIN_DIR"]
    for name in ("TVM_FFI_CACHE_DIR", "VLLM_CACHE_ROOT"):
        assert first[name] == second[name]
        assert Path(first[name]).parent == Path(first["DLRUN_CACHES"])
    assert "TRITON_CACHE_DIR" not in first, "torch is known not to be installed"


@pytest.mark.slow
def test_what_is_set_is_kept(dlrun, here):
    job = dlrun.submit(
        "site: site.yaml\nenvironment: {variables: {TRITON_CACHE_DIR: /mine}, setup: ['export TORCH_EXTENSIONS_DIR=/too']}\n"
        f"resources: {{ranks_per_node: 1}}\n{SHOW}",
        "--wait",
    )
    found = variables(job)
    assert (found["TRITON_CACHE_DIR"], found["TORCH_EXTENSIONS_DIR"]) == ("/mine", "/too")
    assert found["TORCHINDUCTOR_CACHE_DIR"].startswith(str(here))


def test_the_next_job_finds_what_the_first_left_and_another_environment_does_not(dlrun, here):
    line = 'caches: auto\nrun: \'ls "$TRITON_CACHE_DIR"; touch "$TRITON_CACHE_DIR/entry"\'\nresources: {ranks_per_node: 1}\n'
    dlrun.submit(f"site: site.yaml\n{line}", "--wait")
    assert "entry" in dlrun("submit", dlrun.place / "spec.yaml", "--wait").stdout
    installed(dlrun, "torch-2.9.0")
    other = dlrun("submit", dlrun.place / "spec.yaml", "--wait", "--set", "environment.venv=env")
    assert "entry" not in other.stdout
    listed = dlrun("stage-data", "--list", "--site", dlrun.place / "site.yaml").stderr
    assert listed.count("caches of compilers: ") == 2, "one for each environment"
    assert listed.count(f"{here}/dlrun-caches-") == 2


def test_a_job_whose_node_has_all_entries_fails_for_its_own_reason(dlrun, here):
    """Nothing came to the node, so nothing of that is to be removed there."""
    line = (
        "caches: auto\nrun: 'touch \"$TRITON_CACHE_DIR/entry\"; exit {}'\nresources: {{ranks_per_node: 1}}\n"
    )
    dlrun.submit(f"site: site.yaml\n{line.format(0)}", "--wait")
    job = dlrun.submit(f"site: site.yaml\n{line.format(3)}", "--wait", code=None)
    text = (job / "logs/stage-0.log").read_text()
    assert text == "dlrun: caches: this node has what is in the user's store\n"
    assert "ended with exit code 3" in dlrun("why", job).stdout


COMPILES = """
import json, os, time
entry = os.environ['TRITON_CACHE_DIR'] + '/entry'
place = os.environ['DLRUN_RUN_DIR'] + '/usage/'
def samples():
    texts = [open(place + name).read() for name in (os.listdir(place) if os.path.isdir(place) else [])]
    return [json.loads(line) for text in texts for line in text.split('\\n')[:-1]]
if not os.path.exists(entry):
    least = float(open('least').read()) if os.path.exists('least') else 0.1
    while max((one.get('t') or 0 for one in samples()), default=0) < least: time.sleep(0.1)
    open(entry, 'w').close()
print('step 1: 100.0 samples/s', flush=True)
while len([one for one in samples() if one.get('log')]) < 2: time.sleep(0.1)
"""
"""Compiles, unless its cache has it, until a sample of so many seconds; ends once its first throughput has been recorded."""


@pytest.mark.slow
def test_usage_has_what_a_cold_start_would_take_when_warm(dlrun, here):
    spec = f"site: site.yaml\ncaches: auto\ncommand: [python3, -c, {json.dumps(COMPILES)}]\nresources: {{ranks_per_node: 1}}\n"

    def started(*, forgotten: bool) -> tuple[Path, dict]:
        if forgotten:
            for place in (*dlrun.jobs.glob(".dlrun-hub-*"), *here.glob("dlrun-*")):
                shutil.rmtree(place)
        job = dlrun.submit(spec, "--wait")
        (run,) = json.loads(dlrun("usage", job, "--json").stdout)["usage"]
        return job, run

    _, first = started(forgotten=True)
    warm_job, warm = started(forgotten=False)
    (dlrun.place / "least").write_text(
        str(warm["phases"]["starting"] + 3)
    )  # however late the machine looked at that one
    cold_job, cold = started(forgotten=True)
    because = "no compiled code was found in the store for this environment and kind of machine"
    on_all = {"cold": 1, "nodes": 1, "because": because}
    assert first["cold_start"] == {**on_all, "expected": None, "measured_in": None}
    assert warm["cold_start"] is None
    expected = warm["phases"]["starting"]
    assert cold["cold_start"] == {**on_all, "expected": expected, "measured_in": warm_job.name}
    assert expected + 2 < cold["phases"]["starting"]
    text = f"when warm, as in {warm_job.name}; {because}"
    lines = dlrun("usage", cold_job).stdout.splitlines()
    assert lines[1].startswith("start-up: cold on 1 of 1 node, ")
    assert lines[1].endswith(f"s expected {text}")
    assert "with compiled code of earlier jobs" in dlrun("usage", warm_job).stdout.splitlines()[0]
    dlrun("report", cold_job, "-o", "page.html")
    assert f"s expected {text}" in (dlrun.place / "page.html").read_text()


def test_a_store_of_which_nothing_is_left_goes_as_a_whole(dlrun, here):
    line = "caches: auto\nrun: 'touch \"$TRITON_CACHE_DIR/entry\"'\nresources: {ranks_per_node: 1}\n"
    base = dlrun.submit(f"site: site.yaml\n{line}", "--wait").parent
    (mark,) = base.glob(".dlrun-hub-*/caches--*/*.json")
    dlrun("clean", "--yes")
    assert mark.exists()
    os.utime(mark, (0, 0))
    dlrun("clean", "--yes")
    assert list(base.glob(".dlrun-hub-*")) == []


@pytest.mark.slow
def test_what_is_compiled_is_kept_in_a_directory_of_the_users_choice(dlrun, here):
    line = (
        'run: \'ls "$TRITON_CACHE_DIR"; touch "$TRITON_CACHE_DIR/entry"\'\nresources: {ranks_per_node: 1}\n'
    )
    mine = dlrun.place / "my place"
    base = dlrun.submit(f"site: site.yaml\ncaches: '{mine}'\n{line}", "--wait").parent
    (mark,) = mine.glob(".dlrun-hub-*/caches--*/*.json")
    assert list(base.glob(".dlrun-hub-*")) == []
    shutil.rmtree(next(here.glob("dlrun-caches-*")))
    assert "entry" in dlrun("submit", dlrun.place / "spec.yaml", "--wait").stdout
    assert f" in {mark.parents[1]}\n" in dlrun("clean").stderr
    for one in mark.parent.glob("*.json"):
        os.utime(one, (0, 0))
    dlrun("clean", "--yes")
    assert list(mine.iterdir()) == []


@pytest.mark.slow
def test_a_directory_of_the_users_choice_is_known_after_its_jobs(dlrun, here):
    mine = dlrun.place / "my place"
    line = "run: 'touch \"$TRITON_CACHE_DIR/entry\"'\nresources: {ranks_per_node: 1}\n"
    job = dlrun.submit(f"site: site.yaml\ncaches: '{mine}'\n{line}", "--wait")
    (mark,) = mine.glob(".dlrun-hub-*/caches--*/*.json")
    dlrun("clean", job.name, "--yes")
    assert not job.exists()
    assert f" in {mark.parents[1]}\n" in dlrun("clean").stderr
    assert "compiled code: 1 (" in dlrun("status", "--recent").stderr
    noted = dlrun.jobs / ".dlrun-stores"
    assert noted.read_text() == f'"{mine}"\n'
    for one in mark.parent.glob("*.json"):
        os.utime(one, (0, 0))
    noted.rename(noted.with_name("moved"))
    noted.symlink_to("moved")
    assert str(mine) not in dlrun("clean").stderr, "a link is not read"
    noted.unlink()
    noted.with_name("moved").rename(noted)
    dlrun("clean", "--yes")
    assert list(mine.iterdir()) == []


def test_a_login_node_has_the_directory_from_the_script(dlrun):
    """It has no file that names the store."""
    spec = dlrun.spec("command: [x]\nresources: {ranks_per_node: 1}\ncaches: '/my place'\n")
    (line,) = (
        one for one in dlrun("submit", spec, "--dry-run").stdout.splitlines() if "_compiled_in=" in one
    )
    script = (
        f'source "{ROOT}/templates/lib/compiled.sh"; _dlrun_on_event() {{ :; }}; {line}\n_dlrun_host=n1\n'
        'dlrun_keep_compiled /tmp key - 0 bash; echo "${_dlrun_compiled[@]}"'
    )
    names = {"DLRUN_JOB_DIR": str(dlrun.place), "DLRUN_RUN_DIR": str(dlrun.place), "DLRUN_RUN_ID": "1"}
    done = subprocess.run(
        ["bash", "-euc", script],
        env={"PATH": os.environ["PATH"], "DLRUN_FIRST_HOST": "n1", **names},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"--store /my place/.dlrun-hub-{os.geteuid()} --key key\n"


@pytest.mark.parametrize("value", ["kept/here", "yes", "~"])
def test_a_directory_of_the_users_choice_is_named_in_full(dlrun, value):
    spec = dlrun.spec(f"command: [x]\nresources: {{ranks_per_node: 1}}\ncaches: '{value}'\n")
    said = dlrun("submit", spec, "--dry-run", code=2).stderr
    assert f"`caches` takes `auto`, `off`, or a directory as a full path (or `~/…`), not `{value}`" in said


@pytest.mark.slow
@pytest.mark.parametrize("trap", ["a link", "a directory that others can write"])
def test_a_directory_that_another_could_have_written_is_not_used(dlrun, here, trap):
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    name = here / f"dlrun-caches-{user}"
    if trap == "a link":
        (dlrun.place / "elsewhere").mkdir(mode=0o700)
        name.symlink_to(dlrun.place / "elsewhere")
    else:
        name.mkdir()
        name.chmod(0o777)
    job = dlrun.submit(f"site: site.yaml\nresources: {{ranks_per_node: 1}}\n{SHOW}", "--wait")
    assert not variables(job).get("DLRUN_CACHES", "").startswith(str(here))


def test_explain_has_the_reason_and_the_source(dlrun):
    spec = dlrun.spec("caches: auto\ncommand: [x]\nresources: {ranks_per_node: 1}\n")
    text = dlrun("explain", "TRITON_CACHE_DIR", spec).stdout
    assert "~/.triton/cache" in text
    assert "github.com/triton-lang/triton" in text


@pytest.mark.parametrize(
    ("keys", "has"),
    [("", True), ("framework: mpi", False), ("framework: mpi\ncaches: auto", True), ("caches: off", False)],
)
def test_what_the_framework_compiles_has_its_caches(dlrun, keys, has):
    spec = dlrun.spec(f"command: [x]\nresources: {{ranks_per_node: 1}}\n{keys}\n")
    assert ("dlrun_keep_compiled" in dlrun("submit", spec, "--dry-run").stdout) is has


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME"])
@pytest.mark.parametrize("asked", [True, False])
def test_what_nodes_may_not_be_able_to_compile_stays_in_use(dlrun, here, monkeypatch, asked, variable):
    """Extensions that were built where there is a compiler; `caches: auto` moves them even so."""
    built = dlrun.place / ("mine/.cache" if variable == "HOME" else "mine") / "torch_extensions/py311_cpu"
    built.mkdir(parents=True)
    monkeypatch.setenv(variable, str(dlrun.place / "mine"))
    show = SHOW if asked else SHOW.replace("caches: auto\n", "")
    found = variables(dlrun.submit(f"site: site.yaml\nresources: {{ranks_per_node: 1}}\n{show}", "--wait"))
    assert ("TORCH_EXTENSIONS_DIR" in found) is asked
    assert Path(found["TRITON_CACHE_DIR"]).is_dir()


@pytest.mark.parametrize("taken", ["triton", ".used"])
def test_a_job_whose_directories_cannot_be_made_starts_with_a_warning(dlrun, here, taken):
    line = "resources: {ranks_per_node: 1}\nrun: 'echo caches ${DLRUN_CACHES-} ${TRITON_CACHE_DIR-}.'\n"
    first = dlrun.submit(f"site: site.yaml\n{line}", "--wait")
    (place,) = here.glob("dlrun-caches-*")
    found = next(place.glob(f"*/{taken}"))
    if taken == ".used":
        found.unlink()
        found.mkdir()
    else:
        found.rmdir()
        found.write_text("")
    log = dlrun("submit", dlrun.place / "spec.yaml", "--wait").stdout
    assert f"has no room in {place}: each tool uses its own" in log
    assert "caches ." in log
    assert "caches /" in (first / "logs/rank-0.log").read_text()


def in_shell(base: Path, words: str, **mine: str) -> list[str]:
    """What the library says and sets of `dlrun_caches` on a node."""
    script = f'source "{ROOT}/templates/lib/caches.sh"; {words}; echo "$NUMBA_CACHE_DIR" "$APPTAINER_BIND"'
    own = {"DLRUN_USER": "me", "DLRUN_LOCAL_RANK": "0", "DLRUN_HOST": "n1", "BASE": str(base)}
    done = subprocess.run(
        ["bash", "-c", script],
        env={"PATH": os.environ["PATH"], **own, **mine},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("nodes", "lines"),
    [
        ({}, ["log caches: the nodes begin with the compiled entries of earlier jobs"]),
        ({"1": "3\n"}, ["log caches: compiled entries did not reach all nodes"]),
        (
            {"1": "3\n", "2": "1\n"},
            ["log caches: compiled entries did not reach all nodes", "compiled-check"],
        ),
        ({"": ""}, ["log caches: compiled entries did not reach all nodes", "compiled-check"]),
    ],
    ids=["all", "one of another kind", "one that failed", "a step that failed"],
)
def test_an_archive_that_nodes_could_not_read_is_compared_with_its_digest(tmp_path, nodes, lines):
    for node, code in nodes.items():
        (tmp_path / f"not-seeded{node and '-'}{node}").write_text(code)
    script = (
        f'source "{ROOT}/templates/lib/compiled.sh"; dlrun_log() {{ echo "log ${{1%%,*}}"; }}; dlrun_python() {{ echo "$2"; }}; '
        "_dlrun_seeded"
    )
    names = {"DLRUN_RUN_DIR": str(tmp_path), "DLRUN_JOB_DIR": "/job", "DLRUN_COMPILED": "kind 0 /cache.tar"}
    done = subprocess.run(
        ["bash", "-euc", script], env={**os.environ, **names}, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == lines


@pytest.mark.parametrize(
    ("entry", "found"), [("", False), ("inductor/f/x", True), (".runs/7/jax/x", True), ("numba/x", True)]
)
def test_empty_directories_of_tools_are_passed_over_without_a_process(tmp_path, entry, found):
    """At the end of every point of a sweep: there may be thousands."""
    base = tmp_path / "a *[b]"
    place = base / "dlrun-caches-me" / "key"
    (place / "inductor").mkdir(parents=True)
    (base / "dlrun-caches-me").chmod(0o700)
    (place / ".used").touch()
    if entry:
        (place / entry).parent.mkdir(parents=True, exist_ok=True)
        (place / entry).touch()
    script = (
        f'source "{ROOT}/templates/lib/caches.sh"; _dlrun_on_event() {{ :; }}; source "{ROOT}/templates/lib/compiled.sh"\n'
        "_dlrun_compiled_base=$1 _dlrun_compiled_key=key _dlrun_compiled=()\n"
        "exec 3>&2; PATH=$2:$PATH\n"
        "if _dlrun_has_compiled; then echo yes; else echo no; fi"
    )
    names = {**os.environ, "DLRUN_USER": "me", "DLRUN_JOB_DIR": "/job", "DLRUN_CACHES_RUN": "7"}
    stat = tmp_path / "programs" / "stat"
    stat.parent.mkdir()
    stat.write_text(f'#!/bin/sh\necho stat >&3; exec {shutil.which("stat")} "$@"\n')
    stat.chmod(0o755)
    words = ["bash", "-euc", script, "bash", str(base), str(stat.parent)]
    done = subprocess.run(words, env=names, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (("yes\n", "stat\n") if found else ("no\n", ""))


@pytest.mark.parametrize("sign", [":", ",", "^", "."])
def test_a_directory_that_no_container_can_be_told_is_not_used_there(tmp_path, sign):
    base = tmp_path / f"job{sign}7"
    base.mkdir()
    line = 'dlrun_caches "$BASE" key {} NUMBA_CACHE_DIR=numba'
    place = base / "dlrun-caches-me"
    assert in_shell(base, line.format("no"))[-1] == f"{place}/key/numba "
    assert in_shell(base, line.format("yes")) == (
        [f"{place}/key/numba {place}/key"]
        if sign == "."
        else [
            f"dlrun: caches: n1 has a name for them that cannot be bound into a container ({place}): each tool uses its own",
            " ",
        ]
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "1"), ({"SYCL_CACHE_PERSISTENT": "0"}, "0"), ({"NUMBA_CACHE_DIR": "/mine"}, "")],
    ids=["unset", "set", "a directory of the user's"],
)
def test_a_tool_that_keeps_nothing_by_default_is_asked_to(tmp_path, given, expected):
    words = 'dlrun_caches "$BASE" key no NUMBA_CACHE_DIR=numba:.cache/none+SYCL_CACHE_PERSISTENT; echo "$SYCL_CACHE_PERSISTENT"'
    *_, switch, place = in_shell(tmp_path, words, HOME=str(tmp_path), **given)
    assert switch == expected
    assert place.strip().endswith(given.get("NUMBA_CACHE_DIR", "/key/numba"))


@pytest.mark.parametrize(
    ("kind", "warned"), [("nfs", True), ("lustre", True), ("tmpfs", False), ("ext2/ext3", False)]
)
def test_a_network_file_system_is_named(tmp_path, kind, warned):
    stat = f'stat() {{ case $1 in -f) echo {kind} ;; *) command stat "$@" ;; esac; }}'
    line = 'dlrun_caches "$BASE" key no TRITON_CACHE_DIR=triton NUMBA_CACHE_DIR=numba'
    said = in_shell(tmp_path, f"{stat}; {line}", TRITON_CACHE_DIR="/home/me/not/there")
    found = "TRITON_CACHE_DIR is kept as it was set, /home/me/not/there, which is on"
    assert any(found in one for one in said) is warned
    assert said[-1] == f"{tmp_path}/dlrun-caches-me/key/numba "
