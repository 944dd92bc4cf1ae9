"""`image: docker://…`: pulled once where the job is submitted, by a stand-in for Apptainer, from a registry of the test."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests import apptainer
from tests.cli.conftest import Dlrun, wait_for
from tests.cli.test_clients import Clients
from tests.registry import Registry, digest_of, serve

FILES = {"opt/hello": b"hello\n" * 1000}


@pytest.fixture
def registry():
    """The registry, with an image."""
    made = Registry()
    server = serve(made)
    made.push("org/tool", FILES, "1.0")
    yield made
    server.shutdown()
    server.server_close()


@pytest.fixture
def env(dlrun):
    """The environment of a submission."""
    tools = apptainer.install(dlrun.place / "tools")
    names = ("http_proxy", "https_proxy", "all_proxy", "APPTAINER_CACHEDIR", "APPTAINER_TMPDIR")
    unset = dict.fromkeys((*names, *(name.upper() for name in names[:3])))
    home = dlrun.place / "home"
    home.mkdir()
    return {**unset, "PATH": f"{tools}:{os.environ['PATH']}", "APPTAINER_NOHTTPS": "1", "HOME": str(home)}


def spec(image: str, more: str = "", ranks: int = 2, top: str = "") -> str:
    return (
        f"resources: {{ranks_per_node: {ranks}, walltime: 10m}}\nusage: false\n"
        'run: |\n  cat "$IMAGE" | head -c 3; echo; echo at "$IMAGE"\n'
        f"environment: {{container: {{image: '{image}'{more}}}}}\n{top}"
    )


def store_of(dlrun: Dlrun) -> Path:
    return dlrun.jobs / f".dlrun-hub-{os.geteuid()}"


def kept(dlrun: Dlrun) -> list[Path]:
    return sorted(store_of(dlrun).glob("images--*/*/image.sif"))


def submit(dlrun, env, text, *arguments, code=0):
    return dlrun("submit", dlrun.spec(text), *arguments, env=env, code=code)


def job_of(ran) -> Path:
    return Path(ran.stdout.split("job directory: ")[1].splitlines()[0])


def container_of(job: Path) -> dict:
    return json.loads((job / "plan.json").read_text())["environment"]["container"]


def blobs(registry: Registry) -> list[str]:
    return [line for line in registry.asked if "/blobs/" in line]


def test_one_pull_for_all_ranks_and_jobs(dlrun, registry, env):
    uri, digest = f"docker://{registry.host}/org/tool:1.0", registry.tags["org/tool:1.0"]
    ran = submit(dlrun, env, spec(uri), "--wait")
    job = job_of(ran)
    assert f"{uri}: pulled and converted once for all jobs" in ran.stderr
    assert digest in ran.stderr
    (path,) = kept(dlrun)
    assert path.parent.name.startswith(digest.removeprefix("sha256:"))
    assert container_of(job)["image"] == str(path)
    assert container_of(job)["source"] == {"uri": uri, "digest": digest, "of_file": False}
    for rank in (0, 1):
        assert (job / "logs" / f"rank-{rank}.log").read_text() == f"SIF\nat {path}\n"
    assert json.loads((job / "image.json").read_text())["digest"] == digest
    record = json.loads((job / "code" / "record.json").read_text())["environment"]["image"]
    assert (record["name"], record["digest"]) == (uri, digest)
    assert len(blobs(registry)) == 1
    inside = [path.parent.parent, *path.parent.parent.rglob("*")]
    assert {one.stat().st_mode & 0o077 for one in (store_of(dlrun), *inside)} == {0}
    assert {one.name for one in path.parent.parent.iterdir()} == {
        ".lock",
        path.parent.name,
        f"{path.parent.name}.json",
    }
    registry.asked.clear()
    again = job_of(submit(dlrun, env, spec(uri), "--wait"))
    assert registry.asked == ["HEAD /v2/org/tool/manifests/1.0"], "for its digest alone"
    assert container_of(again) == container_of(job)


def test_a_digest_in_the_name_is_not_asked_for_again(dlrun, registry, env):
    digest = registry.tags["org/tool:1.0"]
    uri = f"docker://{registry.host}/org/tool:1.0@{digest}"
    job = job_of(submit(dlrun, env, spec(uri)))
    assert not any(line.startswith("HEAD") for line in registry.asked)
    registry.asked.clear()
    other = job_of(submit(dlrun, env, spec(f"docker://{registry.host}/org/tool@{digest}")))
    assert registry.asked == []
    assert container_of(other)["image"] == container_of(job)["image"]


@pytest.mark.slow
def test_a_tag_that_moves_is_another_image_and_resubmit_keeps_the_first(dlrun, registry, env):
    uri = f"docker://{registry.host}/org/tool:1.0"
    first = job_of(submit(dlrun, env, spec(uri), "--wait"))
    registry.push("org/tool", {"opt/other": b"other"}, "1.0")
    second = job_of(submit(dlrun, env, spec(uri), "--wait"))
    assert len(kept(dlrun)) == 2
    assert container_of(first)["image"] != container_of(second)["image"]
    registry.asked.clear()
    again = Path(json.loads(dlrun("resubmit", first, "--json", env=env).stdout)["job"]["directory"])
    assert container_of(again) == container_of(first)
    assert registry.asked == []
    assert (again / "image.json").stat().st_nlink == 3


@pytest.mark.slow
def test_two_submissions_pull_once(dlrun, registry, env):
    hold = dlrun.place / "hold"
    hold.touch()
    held = {**env, "FAKE_HOLD": str(hold)}
    text = spec(f"docker://{registry.host}/org/tool:1.0", ranks=1)
    one = dlrun.start("submit", dlrun.spec(text), env=held)
    wait_for(lambda: list(store_of(dlrun).glob("images--*/.*.parts/new-*/image.sif")))
    two = dlrun.start("submit", dlrun.spec(text), env=held)
    waits = ""
    while "waiting for it" not in waits:
        waits = two.stderr.readline()
        assert waits, "it did not wait"
    hold.unlink()
    for process in (one, two):
        _, said = process.communicate()
        assert process.returncode == 0, said
    assert len(blobs(registry)) == 1
    assert len(kept(dlrun)) == 1


@pytest.mark.slow
def test_what_a_killed_submission_left_is_not_taken(dlrun, registry, env):
    hold = dlrun.place / "hold"
    hold.touch()
    text = spec(f"docker://{registry.host}/org/tool:1.0", ranks=1)
    one = dlrun.start("submit", dlrun.spec(text), env={**env, "FAKE_HOLD": str(hold)})
    wait_for(lambda: list(store_of(dlrun).glob("images--*/.*.parts/new-*/image.sif")))
    one.send_signal(signal.SIGKILL)
    one.communicate()
    assert not kept(dlrun), "complete, or not there"
    listed = dlrun("clean", env=env).stderr
    assert "not complete, no job uses it" in listed
    job = job_of(submit(dlrun, env, text, "--wait"))
    assert (job / "logs" / "rank-0.log").read_text().startswith("SIF\n")
    assert len(blobs(registry)) == 1, "the layers that had come are used"
    hold.unlink()
    wait_for(lambda: not dlrun.alive())
    assert len(kept(dlrun)) == 1
    assert not list(store_of(dlrun).glob("images--*/.*.parts"))


def test_an_interrupted_submission_ends_the_pull(dlrun, registry, env):
    hold = dlrun.place / "hold"
    hold.touch()
    text = spec(f"docker://{registry.host}/org/tool:1.0")
    one = dlrun.start("submit", dlrun.spec(text), env={**env, "FAKE_HOLD": str(hold)})
    wait_for(lambda: list(store_of(dlrun).glob("images--*/.*.parts/new-*/image.sif")))
    one.send_signal(signal.SIGTERM)
    one.communicate()
    wait_for(lambda: not dlrun.alive())
    assert not kept(dlrun)
    assert not list(dlrun.jobs.glob("run*")), "nothing was submitted"


@pytest.mark.slow
def test_a_file_of_another_length_is_pulled_again(dlrun, registry, env):
    text = spec(f"docker://{registry.host}/org/tool:1.0")
    submit(dlrun, env, text)
    (path,) = kept(dlrun)
    path.chmod(0o600)
    path.write_bytes(b"SI")
    submit(dlrun, env, text)
    assert path.read_bytes().startswith(b"SIF\n")


def test_without_a_runtime(dlrun, registry, env):
    away = {**env, "PATH": "/usr/bin:/bin"}
    uri = f"docker://{registry.host}/org/tool:1.0"
    ran = submit(dlrun, away, spec(uri), code=2)
    assert "neither apptainer nor singularity is on PATH" in ran.stderr
    assert "`module load apptainer`" in ran.stderr
    assert "`environment.container.fetch: job`" in ran.stderr
    assert not list(dlrun.jobs.glob("run*"))
    ran = submit(dlrun, away, spec(uri, ", fetch: job"))
    assert container_of(job_of(ran))["image"] == uri
    assert not kept(dlrun)


@pytest.mark.slow
def test_without_a_network_only_what_is_there(dlrun, registry, env):
    uri, digest = f"docker://{registry.host}/org/tool", registry.tags["org/tool:1.0"]
    submit(dlrun, env, spec(f"{uri}:1.0"))
    answers, registry.tags = registry.tags, {}
    registry.manifests.clear()
    submit(dlrun, env, spec(f"{uri}@{digest}"))
    ran = submit(dlrun, env, spec(f"{uri}:2.0"), code=1)
    assert f"has no image `{uri}:2.0`" in ran.stderr
    ran = submit(dlrun, env, spec("docker://127.0.0.1:9/org/tool:1.0"), code=1)
    assert "cannot be pulled" in ran.stderr
    assert "submit from a host that has a network" in ran.stderr
    assert answers


def test_a_registry_that_limits_requests(dlrun, registry, env):
    registry.limits = 1
    ran = submit(dlrun, env, spec(f"docker://{registry.host}/org/tool:1.0"), code=1)
    assert "limits requests (429)" in ran.stderr
    assert "APPTAINER_DOCKER_USERNAME" in ran.stderr
    assert len(registry.asked) == 1


@pytest.mark.slow
def test_a_private_image_and_its_credentials(dlrun, registry, env):
    registry.token = "of-the-test"
    uri = f"docker://{registry.host}/org/tool:1.0"
    ran = submit(dlrun, env, spec(uri), code=1)
    assert "credentials are in `APPTAINER_DOCKER_USERNAME`" in ran.stderr
    password = dlrun.place / "password"
    password.write_text("secret\n")
    password.chmod(0o600)
    user, word = (
        "APPTAINER_DOCKER_USERNAME: {command: [echo, me]}",
        f"APPTAINER_DOCKER_PASSWORD: {{file: '{password}'}}",
    )
    named = f"secrets: {{{user}, {word}}}\n"
    job = job_of(submit(dlrun, env, spec(uri, top=named), "--wait"))
    assert container_of(job)["source"]["digest"] == registry.tags["org/tool:1.0"]
    registry.token = None


@pytest.mark.slow
def test_oras_and_a_file_of_a_server(dlrun, registry, env):
    digest = registry.push_file("org/file", b"SIF of oras", "2")
    job = job_of(submit(dlrun, env, spec(f"oras://{registry.host}/org/file:2"), "--wait"))
    assert container_of(job)["source"]["digest"] == digest
    served = digest_of(b"SIF of oras")
    uri = f"http://{registry.host}/v2/org/file/blobs/{served}"
    job = job_of(submit(dlrun, env, spec(uri), "--wait"))
    assert container_of(job)["source"] == {"uri": uri, "digest": served, "of_file": True}
    registry.asked.clear()
    dlrun("resubmit", job, env=env)
    assert registry.asked == []
    registry.blobs[served] = b"SIF of another"
    other = container_of(job_of(submit(dlrun, env, spec(uri))))
    assert other["source"]["digest"] == digest_of(b"SIF of another"), (
        "a file without a digest in a registry comes anew"
    )


@pytest.mark.slow
def test_a_plan_says_what_is_there_and_pulls_nothing(dlrun, registry, env):
    uri = f"docker://{registry.host}/org/tool:1.0"
    name = dlrun.spec(spec(uri))
    assert uri in dlrun("submit", name, "--dry-run", env=env).stdout
    asked = dlrun("submit", name, "--check", env=env, code=None).stderr
    assert (
        f"{uri}: at submission its registry is asked for the digest, and what is not in the store is pulled"
        in asked
    )
    why = dlrun("explain", "environment.container.image", name, env=env).stdout
    assert "pulled and converted once" in why
    assert not registry.asked
    submit(dlrun, env, spec(uri))
    pinned = dlrun.spec(spec(f"{uri}@{registry.tags['org/tool:1.0']}"))
    assert "in the store, at `" in dlrun("submit", pinned, "--check", env=env, code=None).stderr


@pytest.mark.slow
def test_fetched_without_a_job_and_shown(dlrun, registry, env):
    uri = f"docker://{registry.host}/org/tool:1.0"
    name = dlrun.spec(spec(uri))
    assert f"image       {uri} (its digest is asked for at submission)" in dlrun("plan", name, env=env).stdout
    ran = dlrun("submit", name, "--fetch", env=env)
    (path,) = kept(dlrun)
    assert ran.stdout == f"{path}\n"
    assert not list(dlrun.jobs.glob("run*")), "nothing was submitted"
    assert json.loads(dlrun("submit", name, "--fetch", "--json", env=env).stdout)["fetched"] == [str(path)]
    assert len(blobs(registry)) == 1
    job = job_of(submit(dlrun, env, spec(uri), "--wait"))
    assert len(blobs(registry)) == 1
    page = dlrun.place / "page.html"
    dlrun("usage", "--page", job, "-o", page, env=env)
    assert registry.tags["org/tool:1.0"] in page.read_text()
    ran = dlrun("submit", dlrun.spec("run: 'true'"), "--fetch", env=env)
    assert "needs nothing that is fetched" in ran.stderr


SLURM = (
    "name: far\nscheduler: {type: slurm}\nlauncher: {name: srun}\nnode_types: {cpu: {topology: {cores: 4}}}\n"
)


@pytest.fixture
def far(dlrun, env, tmp_path):
    """Submit to this machine as if it were a login node; its store, and the environment."""
    clients = Clients(tmp_path / "clients")
    clients.answer("sbatch", "4711\n")
    for program in ("squeue", "sacct", "scontrol"):
        clients.answer(program)
    there = {**env, **clients.env}
    path = f"{dlrun.place / 'tools'}:{clients.env['PATH']}"
    (Path(env["HOME"]) / ".bash_profile").write_text(
        f"PATH='{path}'; export CALLS='{clients.env['CALLS']}'\n"
    )
    (dlrun.place / "far.yaml").write_text(SLURM)

    def submit_far(text: str, *words: str, code: int = 0):
        name = dlrun.spec("site: ./far.yaml\n" + text)
        return dlrun("submit", name, "--host", "there", "--transport", "local", *words, env=there, code=code)

    return submit_far


@pytest.mark.slow
def test_a_login_node_pulls_once_for_all_ranks_and_jobs(dlrun, registry, env, far):
    uri, digest = f"docker://{registry.host}/org/tool:1.0", registry.tags["org/tool:1.0"]
    path = Path(far(spec(uri), "--fetch").stdout.strip())
    assert path.read_bytes().startswith(b"SIF\n")
    assert path.parent.name == f"{digest.removeprefix('sha256:')}-{os.uname().machine}"
    assert path.parents[2].name == f".dlrun-hub-{os.geteuid()}"
    assert len(blobs(registry)) == 1
    said = far(spec(uri), "--json")
    assert "all at once in one cache" not in said.stderr
    job = json.loads(said.stdout)["job"]
    there = Path(job["remote_directory"])
    assert container_of(there) == container_of(Path(job["directory"]))
    assert container_of(there)["image"] == str(path)
    assert container_of(there)["source"]["digest"] == digest
    assert str(path) in (there / "rank.sh").read_text()
    (dlrun.place / "train.py").write_text("")
    sent = json.loads(far(spec(uri) + "files: [train.py]\n", "--snapshot", "--json").stdout)["job"]
    assert container_of(Path(sent["remote_directory"]))["image"] == str(path)
    recorded = json.loads((Path(sent["remote_directory"]) / "code" / "record.json").read_text())
    assert recorded["environment"]["image"] == {"name": uri, "digest": digest}
    assert (there / "image.json").samefile(path.parent.with_name(f"{path.parent.name}.json"))
    assert len(blobs(registry)) == 1
    mine = {**env, "DLRUN_JOBS": str(there.parent)}
    assert f"@{digest[7:19]}: " in dlrun("clean", "--yes", env=mine).stderr
    assert path.exists(), "a job there uses it"


@pytest.mark.slow
def test_a_login_node_keeps_a_file_of_a_server_by_its_content(dlrun, registry, env, far):
    registry.push_file("org/file", b"SIF of oras", "2")
    served = digest_of(b"SIF of oras")
    uri = f"http://{registry.host}/v2/org/file/blobs/{served}"
    job = json.loads(far(spec(uri), "--json").stdout)["job"]
    assert container_of(Path(job["remote_directory"]))["source"] == {
        "uri": uri,
        "digest": served,
        "of_file": True,
    }
    registry.asked.clear()
    far(spec(uri))
    assert len(blobs(registry)) == 1
    gone = far(spec(f"http://{registry.host}/v2/org/none"), code=1).stderr
    assert "cannot be pulled: While making image" in gone
    (Path(env["HOME"]) / ".bash_profile").write_text("PATH=/usr/bin:/bin\n")
    other = spec(f"docker://{registry.host}/org/tool:1.0")
    assert "neither apptainer nor singularity is on PATH there" in far(other, "--fetch", code=2).stderr


LOCAL = """\
name: here
scheduler: {{type: local}}
launcher: {{name: local}}
rendezvous: {{address: loopback}}
storage: {{node_local: {{path: '{}', size: 100GB{}}}}}
"""


def images_of(job: Path) -> set[str]:
    """Where the ranks of a job found the image."""
    logs = [(job / "logs" / f"rank-{rank}.log").read_text() for rank in (0, 1)]
    assert all(log.startswith("SIF\n") for log in logs), logs
    return {log.partition("\nat ")[2].strip() for log in logs}


@pytest.mark.slow
def test_staged_to_the_node_where_the_spec_or_the_site_asks_for_it(dlrun, registry, env):
    local = dlrun.place / "local disk"
    local.mkdir()
    uri = f"docker://{registry.host}/org/tool:1.0"
    site = dlrun.place / "site.yaml"
    site.write_text(LOCAL.format(local, ""))
    asked = "site: site.yaml\n" + spec(uri).replace("environment: {", "environment: {stage: true, ")
    first = job_of(submit(dlrun, env, asked, "--wait"))
    (path,) = kept(dlrun)
    (there,) = images_of(first)
    assert there.startswith(f"{local}/dlrun-")
    assert there.endswith("/data/image.sif")
    assert Path(there).read_bytes() == path.read_bytes()
    assert container_of(first)["image"] == str(path)
    again = Path(json.loads(dlrun("resubmit", first, "--json", env=env).stdout)["job"]["directory"])
    dlrun("logs", "-f", again, env=env)
    assert images_of(again) == {there}
    assert ": warm in " in (again / "logs" / "stage-0.log").read_text()
    listed = dlrun("stage-data", "--list", "--site", site, env=env).stdout
    assert str(path.parent) in listed

    site.write_text(LOCAL.format(local, ", images: true"))
    plain = "site: site.yaml\n" + spec(uri)
    assert images_of(job_of(submit(dlrun, env, plain, "--wait"))) == {there}
    assert (
        "storage.node_local.images"
        in dlrun("explain", "environment.stage", dlrun.spec(plain), env=env).stdout
    )
    refused = plain.replace("environment: {", "environment: {stage: false, ")
    assert images_of(job_of(submit(dlrun, env, refused, "--wait"))) == {str(path)}
    roles = plain.replace("run: |", "roles: {train: {run: 'true'}}\nx: |").partition("x: |")[0]
    roles += f"environment: {{container: {{image: '{uri}'}}}}\n"
    dlrun("plan", dlrun.spec(roles.replace("ranks_per_node: 2, ", "")), env=env)
    site.write_text(LOCAL.format(local, ", images: true, quota: 50B"))
    dlrun("stage-data", "--clean", "--site", site, env=env)
    small = job_of(submit(dlrun, env, plain, "--wait"))
    assert images_of(small) == {str(path)}, "what does not fit is read in place"


@pytest.mark.needs("apptainer")
def test_pulled_by_apptainer_itself(dlrun, registry, env):
    env = {**env, "PATH": os.environ["PATH"]}
    name = dlrun.spec(spec(f"docker://{registry.host}/org/tool:1.0"))
    path = Path(dlrun("submit", name, "--fetch", env=env).stdout.strip())
    assert b"SIF_MAGIC" in path.read_bytes()[:64]
    assert {one.name for one in path.parent.parent.iterdir()} == {
        ".lock",
        path.parent.name,
        f"{path.parent.name}.json",
    }
    layers = blobs(registry)
    assert dlrun("submit", name, "--fetch", env=env).stdout.strip() == str(path)
    assert blobs(registry) == layers
    registry.push_file("org/file", path.read_bytes(), "2")
    oras = dlrun.spec(spec(f"oras://{registry.host}/org/file:2"))
    assert Path(dlrun("submit", oras, "--fetch", env=env).stdout.strip()).read_bytes() == path.read_bytes()
    gone = dlrun.spec(spec(f"docker://{registry.host}/org/tool@{digest_of(b'none')}"))
    said = dlrun("submit", gone, "--fetch", env=env, code=1).stderr
    assert "cannot be pulled: While making image from oci registry" in said


@pytest.mark.slow
def test_clean_lists_images_and_removes_what_no_job_uses(dlrun, registry, env):
    job = job_of(submit(dlrun, env, spec(f"docker://{registry.host}/org/tool:1.0"), "--wait"))
    (path,) = kept(dlrun)
    named = f"image: {registry.host.replace(':', '_')}/org/tool@{path.parent.name[:12]}: "
    listed = dlrun("clean", "--yes", env=env).stderr
    assert named in listed
    assert "last used 0d ago, used by a job" in listed
    recent = dlrun("status", "--recent", env=env).stderr
    assert "images of containers: 1 (" in recent
    assert "last used 0d ago; `dlrun clean` lists them" in recent
    assert path.exists()
    dlrun("clean", job.name, "--yes", env=env)
    assert not path.exists()
    assert not list(store_of(dlrun).glob("*"))


@pytest.mark.slow
def test_roles_with_one_image_pull_it_once(dlrun, registry, env):
    uri = f"docker://{registry.host}/org/tool:1.0"
    container = f"environment: {{container: {{image: '{uri}'}}}}"
    text = (
        "resources: {walltime: 10m}\nusage: false\nroles:\n"
        f"  train: {{run: 'head -c 3 $IMAGE', {container}}}\n  other: {{run: 'head -c 3 $IMAGE', {container}}}\n"
    )
    job = job_of(submit(dlrun, env, text, "--wait"))
    (path,) = kept(dlrun)
    assert len(blobs(registry)) == 1
    roles = json.loads((job / "plan.json").read_text())["role_jobs"]["jobs"]
    assert {role["plan"]["environment"]["container"]["image"] for role in roles} == {str(path)}
    assert (job / "image.json").exists()
