"""Scripts with several launches beside one another, which are the `roles` of a spec: begin with `roles`.

`nodes` follows host names that a script cuts out of its node list, `steps` finds the launches and what waits for them or ends
them, `shares` which nodes each has, `addresses` the hosts and ports in their words. What is not understood raises `Unclear`.
"""


class Unclear(Exception):
    """A part of a script that keeps its launches from being roles."""
