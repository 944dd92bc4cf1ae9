"""The key/value server that Horovod's ranks meet at."""

from __future__ import annotations

import threading
from http.client import HTTPConnection

import pytest
from dlrun.node.hvd_rendezvous import Handler, Hosts, Server, Store
from hypothesis import given, settings, strategies as st

from tests.examples import examples


@settings(max_examples=examples(60))
@given(st.integers(1, 40), st.integers(1, 8))
def test_scopes_have_as_many_ranks_as_there_are(world, per_node):
    store = Store(world, per_node)
    nodes = -(-world // per_node)
    assert sum(store.size(f"local_node{n}") for n in range(nodes)) == world
    assert sum(store.size(f"cross_{r}") for r in range(min(world, per_node))) == world
    assert store.size("global") == world


def test_a_scope_is_kept_until_all_its_ranks_have_left():
    store = Store(3, 2)
    for rank in range(3):
        store.put("global", str(rank), b"x")
    for rank in range(2):
        store.leave("global", str(rank))
        assert store.get("global", "0") == b"x"
    store.leave("global", "2")
    assert store.get("global", "0") is None
    store.put("global", "0", b"again")  # hvd.shutdown() and hvd.init() once more
    store.leave("global", "0")
    assert store.get("global", "0") == b"again"


def test_a_scope_of_unknown_size_loses_keys_one_by_one():
    store = Store(3, 2)
    scope = "local_node0_process_set_hash_7"
    assert store.size(scope) == 0
    store.put(scope, "0", b"x")
    store.put(scope, "1", b"y")
    store.leave(scope, "0")
    assert (store.get(scope, "0"), store.get(scope, "1")) == (None, b"y")
    store.leave("never_seen", "0")


@pytest.fixture
def ask():
    server = Server(("127.0.0.1", 0), Handler)
    server.store, server.hosts = Store(2, 1), Hosts(["127.0.0.1"], "", "127.0.0.1")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def request(method, path, body=None):
        connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=120)
        connection.request(method, path, body)
        answer = connection.getresponse()
        found = (answer.status, answer.read())
        connection.close()
        return found

    yield request
    server.shutdown()
    thread.join()
    server.server_close()


def test_it_speaks_http(ask):
    value = bytes(range(256))
    assert ask("GET", "/global/0") == (404, b"")
    assert ask("PUT", "/global/0", value) == (200, b"")
    assert ask("GET", "/global/0") == (200, value)
    assert ask("DELETE", "/global/0") == (200, b"")
    assert ask("DELETE", "/global/1") == (200, b"")
    assert ask("GET", "/global/0") == (404, b"")


@pytest.mark.parametrize("path", ["/", "/robots.txt", "*"])
def test_whatever_scans_ports_is_refused_without_a_traceback(ask, capfd, path):
    assert ask("GET", path)[0] == 400
    assert ask("PUT", "/global/0", b"x")[0] == 200
    assert "Traceback" not in capfd.readouterr().err
