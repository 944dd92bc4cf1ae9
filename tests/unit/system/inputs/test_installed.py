"""What can be seen of a job's environment: packages by their metadata directories, DeepSpeed's locks."""

from __future__ import annotations

import pytest

from dlrun.model.observed import Installed
from dlrun.model.program import Environment
from dlrun.model.spec import Spec
from dlrun.system.inputs.installed import read_installed


def spec(**environment):
    framework = environment.pop("framework", "torch")
    return Spec(name="x", command=("python",), framework=framework, environment=Environment(**environment))


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("TORCH_EXTENSIONS_DIR", raising=False)
    packages = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    for name in ("tf_keras-2.21.0.dist-info", "numpy-1.24.4.dist-info", "old-1.2-py3.11.egg-info"):
        (packages / name).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize("how", [{"venv": "env"}, {"venv": "~/env"}, {"conda": "./env"}])
def test_packages_are_read_by_name(home, how):
    found = read_installed(spec(**how), home)
    assert found.packages == {"tf-keras": "2.21.0", "numpy": "1.24.4", "old": "1.2"}


@pytest.mark.parametrize("how", [{}, {"conda": "named"}, {"venv": "nowhere"}, {"modules": ("python",)}])
def test_nothing_is_known_of_other_environments(home, how):
    assert read_installed(spec(**how), home).packages is None


def test_locks_are_looked_for_where_torch_compiles(home, monkeypatch):
    lock = home / ".cache/torch_extensions/py311_cpu/deepspeed_shm_comm/lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    assert read_installed(spec(framework="deepspeed"), home).locks == (str(lock),)
    assert read_installed(spec(), home).locks == (str(lock),)
    other = home / "elsewhere/op/lock"
    other.parent.mkdir(parents=True)
    other.touch()
    named = spec(framework="deepspeed", variables={"TORCH_EXTENSIONS_DIR": str(home / "elsewhere")})
    assert read_installed(named, home).locks == (str(other),)
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(home / "elsewhere"))
    assert read_installed(spec(framework="deepspeed"), home).locks == (str(other),)


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("1.24.4", (1, 24, 4)), ("2.0.0rc1", (2, 0, 0)), ("v3", ()), ("1.9.1.post2", (1, 9, 1))],
)
def test_versions_are_compared_by_their_numbers(version, numbers):
    assert Installed(packages={"x": version}).version("x") == numbers
    assert Installed().version("x") == ()
    assert (Installed().has("x"), Installed(packages={}).has("x")) == (None, False)
