"""Host lists: what the bracket form means, and that folding and expanding undo one another in order."""

import tracemalloc

import pytest
from hypothesis import given, strategies as st

from dlrun.model import hostlist
from dlrun.model.hostlist import expand, fold


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", ()),
        ("n1", ("n1",)),
        ("n[1-3]", ("n1", "n2", "n3")),
        ("n[01-03,7],login1", ("n01", "n02", "n03", "n7", "login1")),
        ("n[08-11]", ("n08", "n09", "n10", "n11")),
        ("n[9-11]", ("n9", "n10", "n11")),
        ("n[0-6/2]", ("n0", "n2", "n4", "n6")),
        ("r[1-2]n[1-2]-ib", ("r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib")),
        ("b,a", ("b", "a")),
        ("a b\nc", ("a", "b", "c")),
    ],
)
def test_expand(text, hosts):
    assert expand(text) == hosts


@pytest.mark.parametrize(
    "text", ["n[1-3", "n1-3]", "n[3-1]", "n[a-b]", "n[]", "n[1-3/0]", "n[[1]]", "n[1-99999999999]", "n[1,]"]
)
def test_no_host_list(text):
    with pytest.raises(ValueError, match="host list"):
        expand(text)


def test_a_list_too_long_for_memory_is_refused_at_once():
    with pytest.raises(ValueError, match="more than 1000000 hosts"):
        expand("a[1-2000]b[1-2000]")


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        ([], ""),
        (["n1"], "n1"),
        (["n1", "n2", "n3"], "n[1-3]"),
        (["n01", "n02", "n03", "n07"], "n[01-03,07]"),
        (["n9", "n10"], "n[9-10]"),
        (["n3", "n1", "n2"], "n[3,1-2]"),
        (["n1", "login", "n2"], "n1,login,n2"),
        (["r1n1", "r1n2"], "r[1]n1,r[1]n2"),
    ],
)
def test_fold_keeps_the_order(hosts, text):
    assert expand(fold(hosts)) == tuple(hosts)
    if text.count("[1]") == 0:
        assert fold(hosts) == text


names = st.from_regex(r"[a-z][a-z-]{0,3}(0{0,2}[0-9]{1,3})?([a-z.-]{0,3}[0-9]{0,2})?", fullmatch=True)


@given(st.lists(names, max_size=40))
def test_fold_and_expand_undo_one_another(hosts):
    assert expand(fold(hosts)) == tuple(hosts)


@given(st.integers(0, 12), st.integers(1, 300), st.integers(1, 5))
def test_a_run_of_hosts_is_one_bracket(first, count, width):
    hosts = [f"node{n:0{width}d}" for n in range(first, first + count)]
    folded = fold(hosts)
    assert expand(folded) == tuple(hosts)
    assert folded.count("[") <= 1
    assert "," not in folded


@pytest.mark.parametrize(
    "text", ["n" + "[0-9999]" * 40, "n[" + ",".join(["0-9999"] * 40) + "]", "n[0-9998],m[0-9998]"]
)
def test_a_list_that_names_too_many_is_refused_before_it_is_held(text, monkeypatch):
    monkeypatch.setattr(hostlist, "_LIMIT", 10_000)  # a million takes tracemalloc half a minute
    tracemalloc.start()
    with pytest.raises(ValueError, match="host list"):
        expand(text)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held < 4 << 20
