"""What all tests share: no test sees this machine's own settings, jobs or scheduler variables."""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import signal
import stat
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from dlrun.jobs.clusters.environment import clean
from dlrun.jobs.records import submitter
from tests import programs
from tests.contract import of_contract
from tests.examples import chosen, examples

settings.register_profile(
    "dlrun",
    max_examples=examples(100),
    deadline=None,  # the machine may be busy: time is not what is tested
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),  # continuous integration tries the same examples every time
)
settings.load_profile("dlrun")

PR_SET_PDEATHSIG = 1
"""Which signal a process gets when its parent dies: linux/prctl.h."""

# A runner in the background ignores SIGINT, and so would everything that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """End with the script that runs several suites side by side (DLRUN_SUITES is its process id), also if it is killed."""
    runner = int(os.environ.get("DLRUN_SUITES", "0"))
    if runner and not hasattr(config, "workerinput"):  # workers end with the process that this is
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != runner:
            pytest.exit("the script that started these tests is gone", 3)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files anew; read the diff"
    )
    parser.addoption("--passed", metavar="FILE", help="write the names of all tests that passed to a file")
    parser.addoption("--not-again", metavar="FILE", help="leave out tests that this file of --passed names")


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the contract where it is chosen; leave out what passed, but for tests that now try more (tests/examples.py)."""
    if "contract" in config.getoption("-m"):
        for item in items:
            if of_contract(item.path):
                item.add_marker("contract")
    file = config.getoption("--not-again")
    if not file or not Path(file).exists():
        return
    before = set(Path(file).read_text("utf-8").split("\0"))
    again = [item for item in items if item.nodeid not in before or more_now(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(again)])
    items[:] = again


def more_now(item: pytest.Item) -> bool:
    """Whether the quick tests try only a part of what this test, or its module, tries."""
    reduced = {id(examples), id(chosen)} & {id(value) for value in vars(item.module).values()}
    return bool(reduced) or bool(getattr(item.function, "is_hypothesis_test", False))


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    """Write what passed and was not skipped; names may have any character but NUL."""
    if file := config.getoption("--passed"):
        names = [
            report.nodeid for report in terminalreporter.stats.get("passed", []) if report.when == "call"
        ]
        Path(file).write_text("\0".join(names), "utf-8")


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Collect without collecting garbage: there are a million objects, all of which are needed."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let no collection of garbage look at the tests themselves."""
    gc.freeze()
    gc.enable()


PASSED = pytest.StashKey[bool]()
LARGE = 65536
"""Bytes of a file that a test which passed does not leave where `scripts/test.sh` removes all others at the end."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call":
        item.stash[PASSED] = report.passed
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    place = item.funcargs.get("tmp_path")
    result = yield
    kept = item.config.getini("tmp_path_retention_policy") == "all"
    if place is not None and kept and item.stash.get(PASSED, False):
        for directory, _, names in os.walk(place):
            for path in (Path(directory, name) for name in names):
                with suppress(OSError):
                    if stat.S_ISREG((status := path.lstat()).st_mode) and status.st_size > LARGE:
                        path.unlink()
    return result


HOMES = itertools.count()
REAL = ("cluster", "frameworks")
"""Directories of tests that need the machine as it is."""


@pytest.fixture(autouse=True)
def own_place(request, tmp_path_factory, monkeypatch):
    """A home and a directory of jobs for each test alone, and nothing that an earlier one submitted in this process."""
    submitter.SUBMITTED.clear()
    if request.path.relative_to(Path(__file__).parent).parts[0] in REAL:
        yield
        return
    for name in set(os.environ) - set(clean(os.environ)):
        monkeypatch.delenv(name)
    for name in [n for n in os.environ if n.startswith("DLRUN_")] + ["NO_COLOR", "FORCE_COLOR"]:
        monkeypatch.delenv(name, raising=False)
    # Not `mktemp`: it lists all directories that tests have made so far, thousands at the end.
    base = tmp_path_factory.getbasetemp() / "homes" / str(next(HOMES))
    base.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(base))
    monkeypatch.setenv("DLRUN_JOBS", str(base / "jobs"))
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    shared, own = tmp_path_factory.getbasetemp() / "compiled", base / ".cache" / "dlrun"
    share_compiled(shared, own)
    yield
    share_compiled(own, shared)


def share_compiled(source: Path, target: Path) -> None:
    """What dlrun compiles once for each user, templates and node programs, it compiles once for the tests of a process.

    Its files are replaced, never changed: links are enough.
    """
    with suppress(OSError), os.scandir(source) as entries:
        for entry in entries:
            if entry.name.startswith(("templates-", "node-", "usage-")):
                target.mkdir(parents=True, exist_ok=True, mode=0o700)
                with suppress(FileNotFoundError):
                    (target / entry.name).unlink()
                os.link(entry.path, target / entry.name)


@pytest.fixture(autouse=True)
def working_programs(request, own_place):
    """A test that needs a program is skipped where that does not work as the test will start it."""
    for marker in request.node.iter_markers("needs"):
        for name in marker.args:
            programs.need(name)


@pytest.fixture
def update_golden(request) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(autouse=True)
def signals_as_before():
    """A command that a test calls in this process ignores signals at its end, and what later tests start would do so, too."""
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        if handler is not None:  # one that is not Python's
            signal.signal(number, handler)
