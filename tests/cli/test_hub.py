"""`data: {source: hf://…}`: fetched once where the job is submitted, with the hub's own library, from a hub of the test."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Dlrun, wait_for
from tests.cli.test_clients import Clients
from tests.hub import Hub, Repository, serve

pytest.importorskip(
    "huggingface_hub", reason="huggingface_hub is not installed: it is in the dependency group `hub`"
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"
WEIGHTS = bytes(range(256)) * 4000
FILES = {"config.json": b"{}\n", "weights.safetensors": WEIGHTS, "sub/tokens.txt": b"a b c\n", "empty": b""}
SITE = """\
name: here
scheduler: {{type: local}}
launcher: {{name: local}}
rendezvous: {{address: loopback}}
storage: {{node_local: {{path: '{place}/local', size: 1GB}}}}
"""
READ = "cd {{ data.model }}; md5sum weights.safetensors sub/tokens.txt; pwd; echo offline=$HF_HUB_OFFLINE"


@pytest.fixture
def hub():
    """The hub, with a model and a data set."""
    made = Hub({
        "models/org/model": Repository(COMMIT, dict(FILES)),
        "datasets/org/words": Repository("f" * 40, {"train.txt": b"word\n" * 500}),
    })  # fmt: skip
    server = serve(made)
    yield made
    server.shutdown()
    server.server_close()


@pytest.fixture
def env(dlrun, hub):
    """The environment of a submission."""
    (dlrun.place / "site.yaml").write_text(SITE.format(place=dlrun.place))
    (dlrun.place / "local").mkdir()
    (dlrun.place / "home").mkdir()
    proxies = dict.fromkeys(
        ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    )
    unset = dict.fromkeys(("HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "HUGGING_FACE_HUB_TOKEN"))
    return {"HF_ENDPOINT": hub.url, "HF_HOME": str(dlrun.place / "home"), **proxies, **unset}


def spec(source=f"hf://org/model@{COMMIT}", more="", run=READ):
    """One process, on the machine of the test, with data staged to its node-local storage."""
    return (
        f"site: ./site.yaml\nresources: {{ranks_per_node: 1, walltime: 10m}}\nusage: false\nrun: |\n  {run}\n"
        f"data:\n  model: {{source: '{source}'{more}}}\n"
    )


def store_of(dlrun: Dlrun) -> Path:
    return dlrun.jobs / f".dlrun-hub-{os.geteuid()}"


def submit(dlrun, env, text, *arguments, code=0):
    return dlrun("submit", dlrun.spec(text), *arguments, env=env, code=code)


def job_of(ran) -> Path:
    return Path(ran.stdout.split("job directory: ")[1].splitlines()[0])


def log(job):
    return (job / "logs" / "rank-0.log").read_text()


def test_one_request_a_file_and_none_for_the_second_job(dlrun, hub, env):
    ran = submit(dlrun, env, spec(), "--wait")
    job = job_of(ran)
    assert f"{dlrun.place}/local" in log(job), "read from node-local storage"
    assert "offline=1" in log(job)
    assert sorted(hub.gets()) == sorted(
        f"GET /org/model/resolve/{COMMIT}/{name}" for name in FILES if FILES[name]
    )
    data = json.loads((job / "plan.json").read_text())["data"][0]
    assert data["hub"]["commit"] == COMMIT
    assert data["hub"]["repository"] == "org/model"
    kept = store_of(dlrun) / "models--org--model" / COMMIT
    assert data["source"] == str(kept)
    assert {str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file()} == set(FILES)
    assert kept.joinpath("weights.safetensors").read_bytes() == WEIGHTS
    assert {
        path.stat().st_mode & 0o077 for path in (store_of(dlrun), kept.parent, kept, *kept.rglob("*"))
    } == {0}
    assert json.loads((job / "hub-model.json").read_text())["commit"] == COMMIT
    asked = len(hub.asked)
    again = job_of(submit(dlrun, env, spec(), "--wait"))
    assert len(hub.asked) == asked, "nothing is asked for a commit that is there"
    assert log(again).splitlines()[:2] == log(job).splitlines()[:2]
    assert not dlrun("clean", "--yes", env=env).stderr.count("removed: no job")


@pytest.mark.slow
def test_a_branch_is_resolved_and_its_commit_recorded(dlrun, hub, env):
    ran = submit(dlrun, env, spec("hf://org/model", run="cat {{ data.model }}/sub/tokens.txt"), "--wait")
    assert f"`main` of org/model is commit {COMMIT}" in ran.stderr
    assert "a b c" in log(job_of(ran))
    new = "1" * 40
    hub.repositories["models/org/model"] = Repository(new, {**FILES, "sub/tokens.txt": b"changed\n"})
    second = job_of(
        submit(dlrun, env, spec("hf://org/model@main", run="cat {{ data.model }}/sub/tokens.txt"), "--wait")
    )
    assert "changed" in log(second)
    assert json.loads((second / "plan.json").read_text())["data"][0]["hub"]["commit"] == new
    again = json.loads(dlrun("resubmit", job_of(ran), "--json", env=env).stdout)["job"]["directory"]
    dlrun("logs", "-f", again, env=env)
    assert "a b c" in log(Path(again)), "the commit of the first submission"


@pytest.mark.slow
def test_in_place_where_there_is_no_node_local_storage(dlrun, hub, env):
    text = spec().replace("site: ./site.yaml", "site: workstation")
    job = job_of(submit(dlrun, env, text, "--wait"))
    assert str(store_of(dlrun) / "models--org--model" / COMMIT) in log(job)
    assert "offline=1" in log(job)


@pytest.mark.slow
def test_a_data_set_and_a_choice_of_its_files(dlrun, hub, env):
    run = "ls {{ data.model }}; ls {{ data.model }} | wc -l"
    job = job_of(submit(dlrun, env, spec("hf://datasets/org/words@main", run=run), "--wait"))
    assert log(job).split() == ["train.txt", "1"]
    chosen = ", include: ['*.json', 'sub/*']"
    submit(dlrun, env, spec(more=chosen), code=0)
    assert not any("weights" in line for line in hub.asked), "what staging would leave out is not fetched"


@pytest.mark.slow
def test_a_cut_connection_goes_on_where_it_was_cut(dlrun, hub, env):
    hub.cuts = 2
    ran = submit(dlrun, env, spec())
    assert "the connection was cut" in ran.stderr
    half = len(WEIGHTS) // 2
    assert [line.partition(".safetensors")[2] for line in hub.gets() if "weights" in line] == [
        "", f" bytes={half}-", f" bytes={half + half // 2}-"
    ]  # fmt: skip
    kept = store_of(dlrun) / "models--org--model" / COMMIT
    assert kept.joinpath("weights.safetensors").read_bytes() == WEIGHTS


@pytest.mark.slow
def test_a_killed_submission_is_resumed_by_the_next(dlrun, hub, env):
    hub.repositories["models/org/model"].files = {"a.txt": b"a", "weights.safetensors": WEIGHTS}
    hub.cuts, hub.after = 1, "30"
    process = dlrun.start("submit", dlrun.spec(spec()), env=env)
    parts = store_of(dlrun) / "models--org--model" / f".{COMMIT}.parts"
    wait_for(lambda: any(path.stat().st_size for path in parts.glob("*")) and not hub.cuts)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (store_of(dlrun) / "models--org--model" / COMMIT).exists(), "complete, or not there"
    hub.asked.clear()
    ran = submit(dlrun, env, spec())
    assert "of it there already" in ran.stderr
    assert next(line for line in hub.gets() if "weights" in line).endswith("-"), "the rest alone"
    assert (store_of(dlrun) / "models--org--model" / COMMIT / "weights.safetensors").read_bytes() == WEIGHTS


@pytest.mark.slow
def test_a_hub_that_limits_requests_is_waited_for_as_long_as_it_says(dlrun, hub, env):
    hub.limits = 2
    ran = submit(dlrun, env, spec())
    assert "the hub limits requests (429); the next try is in 1s" in ran.stderr
    hub.limits, hub.after = 99, "86400"
    ran = submit(dlrun, env, spec("hf://datasets/org/words@main"), code=1)
    assert "limits requests (429), and" in ran.stderr
    assert "HF_TOKEN" in ran.stderr


def test_a_gated_model_needs_the_token_which_is_written_nowhere(dlrun, hub, env):
    hub.repositories["models/org/model"].gated = True
    ran = submit(dlrun, env, spec(), code=1)
    assert "is gated" in ran.stderr
    assert "secrets: {HF_TOKEN:" in ran.stderr
    assert not list(dlrun.jobs.glob("run*")), "nothing was submitted"
    token = dlrun.place / "token"
    token.write_text(hub.token)
    token.chmod(0o600)
    job = job_of(submit(dlrun, env, spec() + f"secrets: {{HF_TOKEN: {{file: '{token}'}}}}\n", "--wait"))
    assert "offline=1" in log(job)
    token.unlink()
    for path in dlrun.place.rglob("*"):
        assert not path.is_file() or hub.token.encode() not in path.read_bytes(), path
    for path in dlrun.jobs.rglob("*"):
        assert not path.is_file() or hub.token.encode() not in path.read_bytes(), path


@pytest.mark.slow
def test_the_token_of_the_shell(dlrun, hub, env):
    hub.repositories["models/org/model"].gated = True
    submit(dlrun, {**env, "HF_TOKEN": hub.token}, spec())
    with_token = [
        line for line, token in zip(hub.asked, hub.tokens, strict=True) if token == f"Bearer {hub.token}"
    ]
    assert with_token == [line for line in hub.asked if "/org/model/" in line]


@pytest.mark.parametrize(
    ("source", "says", "code"),
    [
        ("hf://org/none@main", "has no model `org/none`", 1),
        ("hf://org/model@v9", "has no revision `v9`", 1),
        ("hf://org/model@main/weights", "names no repository", 2),
        ("hf://spaces/org/model", "names no repository", 2),
    ],
)
def test_what_is_not_there(dlrun, hub, env, source, says, code):
    ran = submit(dlrun, env, spec(source), code=code)
    assert says in ran.stderr
    assert not list(dlrun.jobs.glob("run*"))


@pytest.mark.slow
def test_without_a_network_only_a_commit_that_is_there(dlrun, hub, env):
    submit(dlrun, env, spec())
    away = {**env, "HF_ENDPOINT": "http://127.0.0.1:9"}
    submit(dlrun, away, spec())
    ran = submit(dlrun, away, spec("hf://org/model@main"), code=1)
    assert "cannot be fetched from http://127.0.0.1:9" in ran.stderr
    assert f"in the store: `@{COMMIT}`" in ran.stderr


@pytest.mark.slow
def test_content_that_is_not_what_the_hub_lists(dlrun, hub, env):
    hub.repositories["models/org/model"].files = Lying(FILES)
    ran = submit(dlrun, env, spec(), code=1)
    assert "`config.json` of `hf://org/model" in ran.stderr
    assert "digest differs" in ran.stderr
    assert not (store_of(dlrun) / "models--org--model" / COMMIT).exists()


def test_a_disk_without_the_room_is_known_before_anything_comes(dlrun, hub, env):
    hub.repositories["models/org/model"].sizes["weights.safetensors"] = 10**18
    ran = submit(dlrun, env, spec(), code=1)
    assert "there is no space left for `hf://org/model" in ran.stderr
    assert "`dlrun clean --yes` removes what no job uses" in ran.stderr
    assert not hub.gets()


class Lying(dict):
    """Gives out another content of the same size than it lists."""

    def __getitem__(self, name):
        content = super().__getitem__(name)
        return b"[]\n" if name == "config.json" else content


@pytest.mark.slow
def test_a_plan_says_what_is_there_and_fetches_nothing(dlrun, hub, env):
    name = dlrun.spec(spec())
    assert "hf://org/model" in dlrun("plan", name, env=env).stdout
    assert "not known to be in the store" in dlrun("submit", name, "--check", env=env, code=None).stderr
    assert not hub.asked
    submit(dlrun, env, spec())
    asked = len(hub.asked)
    assert str(store_of(dlrun)) in dlrun("plan", name, env=env).stdout
    assert "in the store, at" in dlrun("submit", name, "--check", env=env, code=None).stderr
    why = dlrun("explain", "HF_HUB_OFFLINE", name, env=env).stdout
    assert "each rank asks the hub" in why
    own = spec() + "environment: {variables: {HF_HUB_OFFLINE: '0'}}\n"
    assert "HF_HUB_OFFLINE" in dlrun("plan", dlrun.spec(own), env=env).stdout
    assert "offline=0" in log(job_of(submit(dlrun, env, own, "--wait")))
    assert len(hub.asked) == asked


@pytest.mark.slow
def test_clean_removes_what_no_job_uses(dlrun, hub, env):
    job = job_of(submit(dlrun, env, spec(), "--wait"))
    listed = dlrun("clean", env=env).stderr
    assert f"hub: org/model@{COMMIT[:12]}: 1MB" in listed or "used by a job" in listed
    assert "models and data sets of the hub: 1 (" in dlrun("status", "--recent", env=env).stderr
    kept = store_of(dlrun) / "models--org--model" / COMMIT
    dlrun("clean", "--yes", env=env)
    assert kept.is_dir(), "a job has it"
    dlrun("clean", job.name, "--yes", env=env)
    assert not job.exists()
    assert not kept.exists()
    assert not list(store_of(dlrun).glob("*"))


def test_a_login_node_fetches_for_itself(dlrun, hub, env):
    ran = submit(dlrun, env, spec(), "--host", "login.example", code=2)
    assert "fetched by the host that submits" in ran.stderr
    assert not hub.asked


def test_without_the_library(dlrun, hub, env):
    nothing = dlrun.place / "nothing"
    nothing.mkdir()
    (nothing / "huggingface_hub.py").write_text("raise ImportError\n")
    with_it = {**env, "PYTHONPATH": str(nothing)}
    process = dlrun.start("submit", dlrun.spec(spec()), env=with_it)
    _, said = process.communicate()
    assert process.returncode == 2
    assert "pip install 'dlrun[hub]'" in said


SLURM = """\
name: two
scheduler: {type: slurm}
launcher: {name: srun}
node_types: {cpu: {topology: {cores: 4}}}
partitions: {cpu: {node_type: cpu}}
storage: {node_local: {path: /local, size: 1GB}}
"""


@pytest.mark.slow
def test_a_job_of_several_nodes_has_a_directory_to_read(dlrun, hub, env, tmp_path):
    clients = Clients(tmp_path / "clients")
    clients.answer("sbatch", "4711\n")
    (dlrun.place / "slurm.yaml").write_text(SLURM)
    text = (
        spec()
        .replace("./site.yaml", "./slurm.yaml")
        .replace("ranks_per_node: 1", "nodes: 2, ranks_per_node: 2")
    )
    job = job_of(submit(dlrun, {**env, **clients.env}, text))
    assert sorted(hub.gets()) == sorted(
        f"GET /org/model/resolve/{COMMIT}/{name}" for name in FILES if FILES[name]
    )
    assert len([line for line in hub.asked if "/revision/" in line]) == 1
    stage = (job / "stage.sh").read_text()
    assert str(store_of(dlrun) / "models--org--model" / COMMIT) in stage
    assert "hf://" not in stage


@pytest.mark.slow
def test_ranks_ask_the_hub_for_nothing(dlrun, hub, env):
    (dlrun.place / "train.py").write_text(
        "import sys\nfrom huggingface_hub import snapshot_download\nfrom huggingface_hub.errors import OfflineModeIsEnabled\n"
        "print(len(open(sys.argv[1] + '/weights.safetensors', 'rb').read()))\n"
        "try:\n    snapshot_download('org/model', cache_dir=sys.argv[2])\n"
        "except Exception as error:\n    print('refused', type(error).__name__)\n"
    )
    text = (
        spec().replace("ranks_per_node: 1", "ranks_per_node: 2").partition("run:")[0]
        + f"command: [{sys.executable}, train.py, '{{{{ data.model }}}}', '{dlrun.place}/cache']\n"
        + "data:\n"
        + spec().partition("data:\n")[2]
    )
    job = job_of(submit(dlrun, env, text))
    asked = len(hub.asked)
    dlrun("logs", "-f", job, env=env)
    for rank in (0, 1):
        assert (job / "logs" / f"rank-{rank}.log").read_text().split()[:2] == [str(len(WEIGHTS)), "refused"]
    assert len(hub.asked) == asked


BY_NAME = """\
import os, sys
from huggingface_hub import hf_hub_download, snapshot_download
print(open(hf_hub_download('org/model', 'config.json')).read().strip())
print(len(open(snapshot_download('org/model', revision=sys.argv[1]) + '/weights.safetensors', 'rb').read()))
print(sorted(os.listdir(snapshot_download('org/words', repo_type='dataset'))))
print(open(hf_hub_download('other/own', 'x')).read())
print(os.environ['HF_HUB_CACHE'])
"""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["staged", "in place"])
def test_a_program_that_names_the_repository_finds_it(dlrun, hub, env, place):
    """By its default revision, by commit and by branch; what the user's own cache has is there, too; nothing is asked."""
    if place == "in place":
        site = dlrun.place / "site.yaml"
        site.write_text(site.read_text().partition("storage:")[0])
    (dlrun.place / "by_name.py").write_text(BY_NAME)
    own = dlrun.place / "home" / "hub" / "models--other--own"
    (own / "refs").mkdir(parents=True)
    (own / "refs" / "main").write_text("a" * 40)
    (own / "snapshots" / ("a" * 40)).mkdir(parents=True)
    (own / "snapshots" / ("a" * 40) / "x").write_text("mine")
    text = (
        spec().partition("run:")[0]
        + f"command: [{sys.executable}, by_name.py, {COMMIT}]\n"
        + f"data:\n  model: {{source: 'hf://org/model@{COMMIT}'}}\n  words: {{source: 'hf://datasets/org/words@main'}}\n"
    )
    job = job_of(submit(dlrun, env, text))
    asked = len(hub.asked)
    dlrun("logs", "-f", job, env=env)
    assert log(job).splitlines() == ["{}", str(len(WEIGHTS)), "['train.txt']", "mine", f"{job}/hub"]
    assert len(hub.asked) == asked
    assert not (job / "hub").exists()
    assert (own / "refs" / "main").read_text() == "a" * 40
    why = dlrun("explain", "HF_HUB_CACHE", dlrun.spec(text), env=env).stdout
    assert "what `model`, `words` names" in why


@pytest.mark.slow
@pytest.mark.parametrize("own", ["HF_HUB_CACHE: /mine", "HF_HUB_OFFLINE: '0'"])
def test_a_cache_of_the_users_choice_is_kept(dlrun, hub, env, own):
    text = spec(run="echo cache=${HF_HUB_CACHE-none}") + f"environment: {{variables: {{{own}}}}}\n"
    job = job_of(submit(dlrun, env, text))
    dlrun("logs", "-f", job, env=env)
    assert log(job) == ("cache=/mine\n" if own.startswith("HF_HUB_CACHE") else "cache=none\n")
    assert "dlrun_in_hub" not in (job / "job.sh").read_text()


@pytest.mark.slow
def test_staged_without_a_job(dlrun, hub, env):
    ran = dlrun("stage-data", f"hf://org/model@{COMMIT}", "--to", dlrun.place / "to", env=env)
    assert (dlrun.place / "to" / "model" / "data" / "weights.safetensors").read_bytes() == WEIGHTS
    assert str(dlrun.place / "to" / "model" / "data") in ran.stdout


@pytest.mark.slow
def test_roles_have_repositories_of_their_own(dlrun, hub, env):
    roles = {
        "judge": {"run": "echo judged; sleep 600", "data": {"words": {"source": "hf://datasets/org/words@main"}}},
        "train": {"run": READ, "data": {"model": {"source": f"hf://org/model@{COMMIT}"}}, "needs": ["judge"]},
    }  # fmt: skip
    text = f"site: workstation\nusage: false\nresources: {{walltime: 5m}}\nroles: {json.dumps(roles)}\n"
    job = job_of(submit(dlrun, env, text, "--wait"))
    shown = (job / "roles/train/logs/rank-0.log").read_text()
    assert str(store_of(dlrun) / "models--org--model" / COMMIT) in shown
    assert "offline=1" in shown
    assert json.loads((job / "hub-train.model.json").read_text())["commit"] == COMMIT
    assert (job / "hub-judge.words.json").exists()
    asked = len(hub.gets())
    submit(dlrun, env, text, "--wait")
    assert len(hub.gets()) == asked, "what is in the store is not fetched again"
    assert not dlrun("clean", "--yes", env=env).stderr.count("removed: no job")
