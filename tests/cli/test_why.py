"""`dlrun why` with what the site knows, from its profile to the answer."""

from __future__ import annotations

SITE = """\
name: here
scheduler: {type: local}
launcher: {name: local}
rendezvous: {address: loopback}
failures:
  licence: {pattern: 'no licence for (\\w+)', means: 'all licences of {1} are in use', next: 'ask for {1} with `--licenses`'}
"""


def test_a_failure_of_the_sites_own_is_named(dlrun):
    (dlrun.place / "site.yaml").write_text(SITE)
    spec = "command: [bash, -c, 'echo no licence for fluent; exit 3']\nsite: ./site.yaml\nresources: {ranks_per_node: 1}\n"
    job = dlrun.submit(spec, "--wait", code=3)
    shown = dlrun("why", job).stdout
    assert "why:   all licences of fluent are in use" in shown
    assert "log:   logs/rank-0.log: no licence for fluent" in shown
    assert "next:  ask for fluent with `--licenses`" in shown
