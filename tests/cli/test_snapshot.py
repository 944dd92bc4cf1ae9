"""`code: snapshot`: a job runs the code that was submitted, whatever becomes of the directory that it came from."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ONE = "resources: {ranks_per_node: 1}\nusage: false\n"
AGAIN = f"on_failure: {{requeue: 1, user_error: requeue}}\n{ONE}"
TRAIN = f"code: snapshot\ncommand: [python3, train.py]\n{ONE}"


def git(place, *words):
    options = ("-c", "user.name=n", "-c", "user.email=e@x", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *options, *words], cwd=place, check=True, capture_output=True)


def commit(place):
    git(place, "init", "-q")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "first")


@pytest.fixture
def tree(dlrun):
    """A working tree with a commit, in the directory of the submissions."""
    (dlrun.place / "train.py").write_text("import lib\nprint('version', lib.VERSION)\n")
    (dlrun.place / "lib.py").write_text("VERSION = 1\n")
    (dlrun.place / ".gitignore").write_text("*.yaml\ndata/\njobs/\n*.so\n")
    (dlrun.place / "latest.py").symlink_to("train.py")
    commit(dlrun.place)
    return dlrun.place


def store_of(dlrun) -> Path:
    return dlrun.jobs / f".dlrun-code-{os.geteuid()}"


def objects(dlrun) -> list[Path]:
    return sorted((store_of(dlrun) / "objects").glob("*/*"))


def stored(job) -> set[str]:
    """The names of the files in a job's version."""
    tree = Path((job / "code" / "snapshot").read_text().splitlines()[0])
    return {str(path.relative_to(tree)) for path in tree.rglob("*") if not path.is_dir() or path.is_symlink()}


def log(job, name="job"):
    return (job / "logs" / f"{name}.log").read_text()


def submitted(dlrun, spec, *arguments, **options):
    """(job directory, notices) of a submission."""
    ran = dlrun("submit", dlrun.spec(spec), *arguments, **options)
    return Path(ran.stdout.split("job directory: ")[1].splitlines()[0]), ran.stderr


@pytest.mark.needs("git")
def test_a_requeue_runs_what_was_submitted_although_the_directory_is_gone(dlrun, tree):
    source = dlrun.place / "source"
    source.mkdir()
    for name in ("train.py", "lib.py"):
        shutil.move(tree / name, source / name)
    job = dlrun.submit(
        "code: snapshot\ndirectory: source\nrun: |\n  python3 train.py\n"
        f"  [ $DLRUN_RESTART = 1 ] || {{ rm -r {source}; exit 3; }}\n{AGAIN}",
        "--wait",
    )
    assert log(job, "rank-0").count("version 1") == 2
    assert not source.exists()
    again = json.loads(dlrun("resubmit", job, "--json").stdout)["job"]["directory"]
    dlrun("logs", "-f", again, code=None)
    assert "version 1" in log(Path(again), "rank-0"), "also when it is submitted again"
    assert f"code: there is no {source} any more, which `submit_dir` names" in log(Path(again))


@pytest.mark.slow
@pytest.mark.needs("git")
def test_an_edit_concerns_no_run_but_a_submission_of_todays_code(dlrun, tree):
    job = dlrun.submit(
        f"code: snapshot\nrun: python3 train.py; echo VERSION = {{{{ n }}}} >{tree}/lib.py\n"
        f"sweep: {{n: [5, 6, 7], at_once: 1}}\n{ONE}"
    )
    dlrun("logs", "-f", job, code=None)
    for point in range(3):
        assert "version 1\n" in log(job / "points" / str(point), "rank-0")
    assert "changed" not in dlrun("status", job).stderr
    for word, version in (("same", 1), ("now", 5)):
        again = json.loads(dlrun("resubmit", f"{job}:0", "--code", word, "--json").stdout)["job"]["directory"]
        dlrun("logs", "-f", again, code=None)
        assert f"version {version}\n" in log(Path(again) / "points" / "0", "rank-0")


@pytest.mark.slow
@pytest.mark.needs("git")
def test_a_changed_setting_keeps_the_code(dlrun, tree):
    job = dlrun.submit(TRAIN, "--wait")
    (tree / "lib.py").write_text("VERSION = 2\n")
    again = json.loads(dlrun("resubmit", job, "--set", "environment.variables.A=b", "--json").stdout)
    new = Path(again["job"]["directory"])
    dlrun("logs", "-f", new, code=None)
    assert "version 1" in log(new, "rank-0")
    found = dlrun("diff", job, new).stdout
    assert "code: no difference" in found
    assert "variables.A.value: - -> b" in found


@pytest.mark.slow
@pytest.mark.needs("git")
def test_what_the_program_writes_is_its_own_and_is_named(dlrun, tree):
    (tree / "sub").mkdir()
    (tree / "sub" / "keep").write_text("")
    git(tree, "add", "-A")
    job, _ = submitted(
        dlrun,
        "code: snapshot\nrun: |\n  echo 1 >out.txt; echo 2 >sub/more.txt; echo '#' >lib.new; mv lib.new lib.py\n"
        f"  [ -w lib.py ]; echo {{{{ submit_dir }}}}\n  [ $DLRUN_RESTART = 1 ]\n{AGAIN}",
        "--wait",
    )
    assert f"the program wrote to {job}/work: " in log(job)
    assert {"out.txt", "sub/more.txt"} <= set(log(job).split("/work: ")[1].splitlines()[0].split(", "))
    assert str(dlrun.place) in log(job, "rank-0")
    assert not (tree / "out.txt").exists()
    assert (tree / "lib.py").read_text() == "VERSION = 1\n"
    assert "work/lib.py changed since the submission, between runs 1 and 2" in dlrun("status", job).stderr


@pytest.mark.slow
@pytest.mark.needs("git")
def test_a_file_that_was_written_in_the_store_ends_the_job(dlrun, tree):
    """No job runs a mixed tree: neither at its first start, nor later; the next submission stores it again."""
    for spec in (
        TRAIN,
        f"code: snapshot\nrun: python3 train.py; chmod u+w lib.py; echo VERSION = 9 >lib.py; exit 3\n{AGAIN}",
    ):
        held = dlrun.submit(f"{spec}environment: {{setup: ['until [ -e {tree}/go ]; do sleep 0.1; done']}}\n")
        if spec is TRAIN:
            victim = next(path for path in objects(dlrun) if path.read_bytes() == b"VERSION = 1\n")
            victim.chmod(0o600)
            victim.write_text("VERSION = 9\n")
        (tree / "go").write_text("")
        dlrun("logs", "-f", held, code=None)
        assert "code: snapshot: it is damaged: " in log(held)
        assert "version 9" not in log(held) + "".join(p.read_text() for p in (held / "logs").glob("rank*"))
        found = json.loads(dlrun("why", held, "--json").stdout)["why"][0]
        assert found["cause"] == "code"
        (tree / "go").unlink()
        job = dlrun.submit(TRAIN, "--wait")
        assert "version 1" in log(job, "rank-0")


@pytest.mark.slow
@pytest.mark.needs("git")
def test_a_hundredth_submission_stores_nothing_and_clean_removes_what_no_job_uses(dlrun, tree):
    first, noted = submitted(dlrun, TRAIN, "--wait")
    assert "3 files" in noted
    before = objects(dlrun)
    second, noted = submitted(dlrun, TRAIN, "--wait")
    assert ", 0B new in the store" in noted
    assert objects(dlrun) == before
    (tree / "lib.py").write_text("VERSION = 2\n")
    third, noted = submitted(dlrun, TRAIN, "--wait")
    assert len(objects(dlrun)) == len(before) + 1
    assert "code of jobs: " in dlrun("list").stderr
    assert "2 versions" in dlrun("clean", third).stderr
    said = dlrun("clean", third, "--yes")
    assert "1 job" in said.stderr
    assert not third.exists(), "the byte code of its modules is dlrun's to remove"
    assert objects(dlrun) == before
    shutil.rmtree(first)
    dlrun("clean", "--yes")
    assert objects(dlrun) == before, "the second job uses it"
    dlrun("clean", second, "--yes")
    assert objects(dlrun) == []
    assert list((store_of(dlrun) / "trees").iterdir()) == []


@pytest.mark.slow
@pytest.mark.needs("git")
def test_clean_keeps_what_the_program_wrote(dlrun, tree):
    job = dlrun.submit(f"code: snapshot\nrun: python3 train.py; echo 1 >result.txt\n{ONE}", "--wait")
    said = dlrun("clean", job, "--yes").stderr
    assert "work/result.txt" in said
    assert (job / "work" / "result.txt").exists()
    assert (job / "work" / "lib.py").exists()


@pytest.mark.needs("git")
@pytest.mark.parametrize("name", [".work.new", ".work.new-judge"])
def test_clean_removes_a_copy_that_a_killed_start_has_laid_out_in_part(dlrun, tree, name):
    job = dlrun.submit(f"code: snapshot\nrun: python3 train.py\n{ONE}", "--wait")
    (job / "work").rename(job / name)
    (job / name / "lib.py").unlink()
    dlrun("clean", job, "--yes")
    assert not job.exists()


@pytest.mark.slow
@pytest.mark.needs("git")
def test_secrets_links_submodules_and_pointers(dlrun, tree):
    inner = dlrun.place.parent / "inner"
    inner.mkdir()
    (inner / "layer.py").write_text("1\n")
    commit(inner)
    git(tree, "submodule", "--quiet", "add", str(inner), "vendor/inner")
    (tree / ".env").write_text("TOKEN=abc")
    (tree / "new.bin").write_text("untracked, and not ignored")
    (tree / "model.bin").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5000000000\n"
    )
    (tree / "shared").symlink_to(dlrun.place.parent)
    (tree / "alias.py").symlink_to("lib.py")
    (tree / "fast.so").write_text("ignored")
    (tree / "data").mkdir()
    (tree / "data" / "set").write_text("0" * 100)
    git(tree, "add", "shared", "model.bin")
    job, noted = submitted(
        dlrun,
        "code: {include: ['*.so'], exclude: ['docs']}\n"
        f"run: 'cat alias.py data/set vendor/inner/layer.py; ls -l shared; readlink shared'\n{ONE}",
        "--wait",
    )
    have = {
        "train.py",
        "new.bin",
        "vendor/inner/layer.py",
        "fast.so",
        "shared",
        "alias.py",
        "data",
        "model.bin",
    }
    assert have <= stored(job)
    assert ".env" not in stored(job)
    assert "hold secrets: .env" in noted
    assert "links that lead out of the snapshot, to what may change: shared" in noted
    assert "not in the snapshot, but linked, as the command names them: data" in noted
    assert "pointers of Git LFS without their content (`git lfs pull`): model.bin" in noted
    assert "VERSION = 1" in log(job, "rank-0")
    assert f"{dlrun.place.parent}\n" in log(job, "rank-0")
    assert ".env" in stored(dlrun.submit(f"code: {{include: [.env]}}\nrun: 'true'\n{ONE}", "--wait"))


@pytest.mark.needs("git")
def test_a_file_over_the_limit_is_named_and_not_read(dlrun, tree):
    with (tree / "huge.bin").open("wb") as file:
        file.truncate(3 << 30)
    ran = dlrun("submit", dlrun.spec(TRAIN), code=2)
    assert "huge.bin (3GiB)" in ran.stderr
    assert "its limit is 200MB" in ran.stderr
    assert not list(dlrun.jobs.glob("[!.]*"))
    job = dlrun.submit(f"code: {{exclude: ['*.bin']}}\ncommand: [python3, train.py]\n{ONE}", "--wait")
    assert "huge.bin" not in stored(job)


def test_without_git_the_code_below_the_working_directory_is_stored(dlrun):
    (dlrun.place / "pkg").mkdir()
    (dlrun.place / "pkg" / "a.py").write_text("X = 1\n")
    (dlrun.place / "train.py").write_text("import pkg.a\nprint('x', pkg.a.X)\n")
    (dlrun.place / "big.bin").write_text("data")
    job = dlrun.submit(f"command: [python3, train.py]\n{ONE}", "--snapshot", "--wait")
    assert stored(job) >= {"pkg/a.py", "train.py"}
    assert "big.bin" not in stored(job)
    assert "x 1" in log(job, "rank-0")


@pytest.mark.slow
@pytest.mark.needs("git")
def test_a_user_or_a_site_takes_a_snapshot_of_each_job(dlrun, tree):
    """And a spec that names another mode has that."""
    settings = dlrun.place / "config" / "dlrun"
    settings.mkdir(parents=True)
    (settings / "settings.yaml").write_text("code: snapshot\n")
    site = "name: here\nscheduler: {type: local}\nlauncher: {name: local}\nrendezvous: {address: loopback}\n"
    (dlrun.place / "site.yaml").write_text(f"{site}defaults: {{code: snapshot}}\n")
    plain = f"command: [python3, train.py]\n{ONE}"
    own = {"env": {"XDG_CONFIG_HOME": str(settings.parent)}}
    for text, options in ((plain, own), (f"site: site.yaml\n{plain}", {})):
        assert (dlrun.submit(text, "--wait", **options) / "work" / "lib.py").exists()
        assert not (dlrun.submit(f"code: record\n{text}", "--wait", **options) / "work").exists()


@pytest.mark.needs("git")
def test_names_of_every_kind_and_programs(dlrun, tree):
    odd = ["a b.py", "ü.py", "back\\slash.py", "-x.py", "new\nline.py", "#c.py"]
    for name in odd:
        (tree / name).write_text(f"{name!r}\n")
    (tree / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (tree / "run.sh").chmod(0o755)
    job = dlrun.submit(f"code: snapshot\ncommand: [./run.sh]\n{ONE}", "--wait")
    assert set(odd) < stored(job)
    assert "ran" in log(job, "rank-0")
    to = dlrun.place / "written"
    dlrun("code", job, "--to", to)
    assert {path.name for path in to.iterdir()} >= {*odd, "run.sh"}
    assert os.access(to / "run.sh", os.X_OK)
    assert os.access(to / "train.py", os.W_OK)


@pytest.mark.slow
@pytest.mark.needs("git")
def test_diff_names_plan_code_and_environment(dlrun, tree):
    first = dlrun.submit(TRAIN, "--wait")
    (tree / "lib.py").write_text("VERSION = 2\n")
    found = dlrun("diff", first).stdout
    assert "lib.py differs" in found
    assert "plan: no difference" in found
    second = dlrun.submit(f"{TRAIN}environment: {{variables: {{A: b}}}}\n", "--wait")
    text = dlrun("diff", first, second, "--text").stdout
    assert "-VERSION = 1\n+VERSION = 2\n" in text
    assert "+environment: {variables: {A: b}}" in text
    rows = json.loads(dlrun("diff", first, second, "--json").stdout)["differences"]
    assert {"code", "plan", "settings"} == {row["section"] for row in rows}


@pytest.mark.needs("git")
def test_the_search_path_of_the_submission_leads_into_the_snapshot(dlrun, tree):
    (tree / "src").mkdir()
    (tree / "src" / "deep.py").write_text("V = 1\n")
    git(tree, "add", "-A")
    job = dlrun.submit(
        f"code: snapshot\nrun: python3 -c 'import deep; print(deep.__file__)'\n"
        f"environment: {{setup: ['export PYTHONPATH=$PWD/src']}}\n{ONE}",
        "--wait",
    )
    assert f"{job}/work/src/deep.py" in log(job, "rank-0")


@pytest.mark.needs("git")
@pytest.mark.parametrize("how", ["path", "finder"])
def test_a_package_that_is_installed_from_the_repository_is_that_of_the_snapshot(dlrun, tree, how):
    """`pip install -e .`, with the layouts `src` of setuptools: a path file, or a finder with a mapping."""
    (tree / "src" / "deep").mkdir(parents=True)
    (tree / "src" / "deep" / "__init__.py").write_text("")
    git(tree, "add", "-A")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tree / "venv"], check=True)
    (place,) = (tree / "venv" / "lib").glob("python3*/site-packages")
    if how == "path":
        (place / "__editable__.deep-1.pth").write_text(f"{tree}/src\n")
    else:
        (place / "__editable___deep_1_finder.py").write_text(f"MAPPING = {{'deep': '{tree}/src/deep'}}\n")
    job = dlrun.submit(
        f"code: snapshot\nrun: python3 -c 'import deep; print(deep.__file__)'\nenvironment: {{venv: venv}}\n{ONE}",
        "--wait",
    )
    assert f"{job}/work/src/deep/__init__.py" in log(job, "rank-0")


@pytest.mark.needs("git")
def test_a_repository_that_git_refuses_is_an_error_in_gits_words(dlrun, tree):
    (tree / ".git" / "HEAD").write_text("nonsense")
    ran = dlrun("submit", dlrun.spec(TRAIN), code=1)
    assert "git does not list the files" in ran.stderr
    assert "not a git repository" in ran.stderr


def test_a_job_on_a_login_node_runs_in_copies_of_the_files(dlrun):
    (dlrun.place / "train.py").write_text("1\n")
    text = (
        "site: archer2\ncode: snapshot\ncommand: [python3, train.py]\nusage: false\n"
        "resources: {ranks_per_node: 1, account: a, walltime: 1h}\n"
    )
    page = dlrun("submit", dlrun.spec(text), "--host", "nowhere", "--dry-run").stdout
    assert "/files" in page
    assert "dlrun_use_snapshot" in page
    limited = text.replace("snapshot", "{limit: 1B}")
    ran = dlrun("submit", dlrun.spec(limited), "--host", "nowhere", "--dry-run", code=2)
    assert "the snapshot would have 2B, and its limit is 1B; the largest files: train.py (2B)" in ran.stderr
    bare = text.replace("python3, train.py", "'true'")
    assert (
        "dlrun_use_snapshot" not in dlrun("submit", dlrun.spec(bare), "--host", "nowhere", "--dry-run").stdout
    )
    ran = dlrun("submit", dlrun.spec(f"{text}directory: /work/a\n"), "--host", "nowhere", "--dry-run", code=2)
    assert "`code: snapshot` cannot store `/work/a`, which is on the login node" in ran.stderr
