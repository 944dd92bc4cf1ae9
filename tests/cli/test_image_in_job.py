"""`fetch: job`: the first node of a job pulls the image once, by a stand-in for Apptainer, from a registry of the test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import wait_for
from tests.cli.test_image import (
    LOCAL,
    blobs,
    container_of,
    env,
    images_of,
    job_of,
    kept,
    registry,
    spec,
    store_of,
    submit,
)
from tests.registry import digest_of

__all__ = ["env", "registry"]
IN_JOB = ", fetch: job"


def log_of(job: Path) -> str:
    return (job / "logs" / "job.log").read_text()


def test_the_job_pulls_once_for_all_ranks_and_later_jobs(dlrun, registry, env):
    uri, digest = f"docker://{registry.host}/org/tool:1.0", registry.tags["org/tool:1.0"]
    ran = submit(dlrun, env, spec(uri, IN_JOB))
    assert "pulls and converts" not in ran.stderr
    job = job_of(ran)
    dlrun("logs", "-f", job, env=env)
    (path,) = kept(dlrun)
    for rank in range(2):
        assert (job / "logs" / f"rank-{rank}.log").read_text() == f"SIF\nat {path}\n"
    assert path.parent.name.startswith(digest.removeprefix("sha256:"))
    assert len(blobs(registry)) == 1
    assert f"dlrun: the image {uri}: pulled and converted once for all jobs" in log_of(job)
    assert json.loads((job / "image.json").read_text())["digest"] == digest
    assert (job / "image.json").stat().st_nlink == 2
    registry.asked.clear()
    again = job_of(submit(dlrun, env, spec(uri, IN_JOB), "--wait"))
    assert registry.asked == ["HEAD /v2/org/tool/manifests/1.0"], "for its digest alone"
    assert "pulled and converted" not in log_of(again)
    registry.asked.clear()
    submitted = job_of(submit(dlrun, env, spec(uri), "--wait"))
    assert container_of(submitted)["image"] == str(path), "submissions and jobs have one store"
    assert not blobs(registry)


@pytest.mark.slow
def test_the_digest_is_in_the_record_afterwards_and_kept_by_resubmit(dlrun, registry, env):
    uri, digest = f"docker://{registry.host}/org/tool:1.0", registry.tags["org/tool:1.0"]
    name = dlrun.spec(spec(uri, IN_JOB))
    assert f"image       {uri} (its digest is asked for in the job)" in dlrun("plan", name, env=env).stdout
    asked = dlrun("submit", name, "--check", env=env, code=None).stderr
    assert f"{uri}: the first node of the job pulls it" in asked
    assert "needs nothing that is fetched" in dlrun("submit", name, "--fetch", env=env, code=None).stderr
    assert not registry.asked
    job = job_of(submit(dlrun, env, spec(uri, IN_JOB), "--wait"))
    page = dlrun.place / "page.html"
    dlrun("usage", "--page", job, "-o", page, env=env)
    assert digest in page.read_text()
    registry.push("org/tool", {"opt/other": b"other"}, "1.0")
    second = job_of(submit(dlrun, env, spec(uri, IN_JOB), "--wait"))
    assert len(kept(dlrun)) == 2
    differs = dlrun("diff", job, second, env=env, code=None).stdout
    assert digest in differs
    assert registry.tags["org/tool:1.0"] in differs
    registry.asked.clear()
    again = Path(json.loads(dlrun("resubmit", job, "--json", env=env).stdout)["job"]["directory"])
    dlrun("logs", "-f", again, env=env)
    assert container_of(again)["source"]["digest"] == digest
    assert images_of(again) == images_of(job)
    assert registry.asked == []
    dlrun("clean", second.name, "--yes", env=env)
    assert len(kept(dlrun)) == 1, "what the other jobs use stays"
    dlrun("clean", job.name, again.name, "--yes", env=env)
    assert not kept(dlrun)


@pytest.mark.slow
def test_staged_to_the_node_after_the_job_has_pulled_it(dlrun, registry, env):
    local = dlrun.place / "local disk"
    local.mkdir()
    (dlrun.place / "site.yaml").write_text(LOCAL.format(local, ""))
    uri = f"docker://{registry.host}/org/tool:1.0"
    asked = "site: site.yaml\n" + spec(uri, IN_JOB).replace("environment: {", "environment: {stage: true, ")
    job = job_of(submit(dlrun, env, asked, "--wait"))
    (path,) = kept(dlrun)
    (there,) = images_of(job)
    assert there.startswith(f"{local}/dlrun-")
    assert there.endswith("/data/image.sif")
    assert Path(there).read_bytes() == path.read_bytes()
    (dlrun.place / "site.yaml").write_text(LOCAL.format(local, ", images: true, quota: 50B"))
    dlrun("stage-data", "--clean", "--site", "site.yaml", env=env, code=None)
    small = job_of(submit(dlrun, env, "site: site.yaml\n" + spec(uri, IN_JOB), "--wait"))
    assert images_of(small) == {str(path)}, "what does not fit is read in place"
    assert len(blobs(registry)) == 1


@pytest.mark.slow
def test_two_jobs_at_once_pull_once(dlrun, registry, env):
    hold = dlrun.place / "hold"
    hold.touch()
    held, text = (
        {**env, "FAKE_HOLD": str(hold)},
        spec(f"docker://{registry.host}/org/tool:1.0", IN_JOB, ranks=1),
    )
    one = job_of(submit(dlrun, held, text))
    wait_for(lambda: list(store_of(dlrun).glob("images--*/.*.parts/new-*/image.sif")))
    two = job_of(submit(dlrun, held, text))
    wait_for(lambda: (two / "logs" / "job.log").exists() and "waiting for it" in log_of(two))
    hold.unlink()
    for job in (one, two):
        dlrun("logs", "-f", job, env=env)
        assert (job / "logs" / "rank-0.log").read_text().startswith("SIF\n")
    assert len(blobs(registry)) == 1
    assert len(kept(dlrun)) == 1


@pytest.mark.slow
def test_points_of_a_sweep_pull_a_file_without_a_digest_once(dlrun, registry, env):
    registry.push_file("org/file", b"SIF of oras", "2")
    uri = f"http://{registry.host}/v2/org/file/blobs/{digest_of(b'SIF of oras')}"
    text = spec(uri, IN_JOB, ranks=1) + "sweep: {x: [1, 2]}\n"
    text = text.replace("run: |\n", "run: |\n  echo {{ x }}\n")
    job = job_of(submit(dlrun, env, text, "--wait"))
    for point in (0, 1):
        assert "SIF\n" in (job / "points" / str(point) / "logs" / "rank-0.log").read_text()
    assert len(blobs(registry)) == 1
    facts = json.loads((job / "image.json").read_text())
    assert (facts["image"], facts["digest"]) == (uri, digest_of(b"SIF of oras"))
    again = Path(json.loads(dlrun("resubmit", job, "--json", env=env).stdout)["job"]["directory"])
    dlrun("logs", "-f", again, env=env)
    assert len(blobs(registry)) == 1, "it is known by its digest"


@pytest.mark.slow
def test_what_a_killed_job_left_is_not_taken_and_its_layers_are(dlrun, registry, env):
    hold = dlrun.place / "hold"
    hold.touch()
    text = spec(f"docker://{registry.host}/org/tool:1.0", IN_JOB, ranks=1)
    job = job_of(submit(dlrun, {**env, "FAKE_HOLD": str(hold)}, text))
    wait_for(lambda: list(store_of(dlrun).glob("images--*/.*.parts/new-*/image.sif")))
    dlrun("cancel", job, env=env)
    wait_for(lambda: not dlrun.alive())
    assert not kept(dlrun)
    assert not (job / "image.json").exists()
    again = job_of(submit(dlrun, env, text, "--wait"))
    assert (again / "logs" / "rank-0.log").read_text().startswith("SIF\n")
    assert len(blobs(registry)) == 1, "the layers that had come are used"


@pytest.mark.slow
def test_roles_with_images_of_their_own_pull_each_once(dlrun, registry, env):
    registry.push("org/other", {"opt/other": b"other\n" * 100}, "1.0")
    texts = {}
    for name, image in (("train", "tool"), ("help", "other"), ("more", "tool")):
        container = f"{{image: 'docker://{registry.host}/org/{image}:1.0', fetch: job}}"
        texts[name] = f"{{run: 'head -c 3 $IMAGE', environment: {{container: {container}}}}}"
    roles = "\n".join(f"  {name}: {text}" for name, text in texts.items())
    job = job_of(
        submit(dlrun, env, f"resources: {{walltime: 10m}}\nusage: false\nroles:\n{roles}\n", "--wait")
    )
    assert len(kept(dlrun)) == len(blobs(registry)) == 2
    assert json.loads((job / "roles" / "help" / "image.json").read_text())["image"].endswith("/other:1.0")
    page = dlrun.place / "page.html"
    dlrun("usage", "--page", job, "-o", page, env=env)
    assert registry.tags["org/other:1.0"] in page.read_text()


def why(dlrun, job: Path, env: dict) -> dict:
    return json.loads(dlrun("why", job, "--json", env=env, code=None).stdout)


@pytest.mark.slow
def test_each_failure_of_a_pull_has_a_cause(dlrun, registry, env):
    tools = Path(env["PATH"].partition(":")[0])

    def failed(uri: str, more: dict | None = None) -> tuple[str, str]:
        job = job_of(submit(dlrun, {**env, **(more or {})}, spec(uri, IN_JOB, ranks=1), "--wait", code=1))
        assert not (job / "logs" / "rank-0.log").exists()
        return json.dumps(why(dlrun, job, env)), log_of(job)

    found, _ = failed(f"docker://{registry.host}/org/none:1.0")
    assert '"container-image"' in found
    assert "has no such image" in found
    found, _ = failed(f"docker://{registry.host}/org/tool:1.0", {"PATH": "/usr/bin:/bin"})
    assert '"command-missing"' in found
    registry.token = "of-the-test"
    found, _ = failed(f"docker://{registry.host}/org/tool:1.0")
    assert '"container-image"' in found
    assert "unauthorized" in found
    registry.token = None
    registry.limits = 1
    job = job_of(
        submit(dlrun, env, spec(f"docker://{registry.host}/org/tool:1.0", IN_JOB, ranks=1), "--wait")
    )
    assert "answered 429; the next attempt is in 15 s" in log_of(job)
    (tools / "apptainer").write_text(
        "#!/bin/sh\necho 'FATAL:   write: no space left on device' >&2\nexit 255\n"
    )
    found, _ = failed(f"docker://{registry.host}/org/tool@{digest_of(b'other')}")
    assert '"disk-full"' in found
    (tools / "apptainer").write_text("#!/bin/sh\necho 'FATAL:   toomanyrequests' >&2\nexit 255\n")
    found, log = failed(f"docker://{registry.host}/org/tool@{digest_of(b'other')}")
    assert '"hub-limit"' in found
    assert log.count("the next attempt is in") == 2


@pytest.mark.slow
def test_credentials_under_secrets_are_given_to_the_program_that_pulls(dlrun, registry, env):
    registry.token = "of-the-test"
    password = dlrun.place / "password"
    password.write_text("secret\n")
    password.chmod(0o600)
    user, word = (
        "APPTAINER_DOCKER_USERNAME: {command: [echo, me]}",
        f"APPTAINER_DOCKER_PASSWORD: {{file: '{password}'}}",
    )
    uri = f"docker://{registry.host}/org/tool:1.0"
    job = job_of(submit(dlrun, env, spec(uri, IN_JOB, top=f"secrets: {{{user}, {word}}}\n"), "--wait"))
    assert json.loads((job / "image.json").read_text())["digest"] == registry.tags["org/tool:1.0"]
    assert not [one for one in job.rglob("*") if one.is_file() and b"secret\n" in one.read_bytes()[-7:]]
