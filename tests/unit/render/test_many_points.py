"""What the points of a sweep inside one job do not each do again, and that their page of many lines is read as it is."""

from __future__ import annotations

import os
import socket
import subprocess

import pytest

from tests.library import call
from tests.making import LOCAL, plan_of, write_job

POINTS = 300


def take(place, port: int, *, point: bool = True, note: str = "") -> int:
    """Whether this one port is free: the exit code. In a point, after one that has noted `note` with the time `$now`."""
    lines = f"""
    export XDG_RUNTIME_DIR={place} DLRUN_MASTER_ADDR=n1
    {"DLRUN_PLACE=0" if point else ""}
    read -r now _ </proc/uptime
    now=${{now%.*}}
    {f'printf "{note}" >{place}/dlrun-ports-$UID/sockets' if note else ""}
    dlrun_take_ports {port} {port} 1
    _dlrun_release_ports
    """
    return call(place, lines, check=False).returncode


def test_points_that_begin_together_read_the_sockets_once(tmp_path):
    note = tmp_path / f"dlrun-ports-{os.getuid()}" / "sockets"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert take(tmp_path, port, point=False) == 1
        assert not note.exists(), "other jobs neither have nor leave a note"
        assert take(tmp_path, port) == 1
        assert f":{port:04X} " in note.read_text()
        others = "0100007F:0016 "
        assert take(tmp_path, port, note=f"$now  {others}\n") == 0, "what the other point has seen"
        assert take(tmp_path, port, note=f"$((now - 2))  {others}\n") == 1, "too long ago"
        assert take(tmp_path, port, note=f"$((now + 5))  {others}\n") == 1, "before a boot"
        assert take(tmp_path, port, note=f"$now  {others}") == 1, "it is being written"
        assert take(tmp_path, port, note="now\n") == 1
        note.unlink()
        note.mkdir()
        assert take(tmp_path, port) == 1, "without a note, by the kernel's tables"
    assert take(tmp_path, port) == 0


@pytest.mark.parametrize("mode", ["record", "strict"])
def test_the_code_is_compared_once_a_minute_on_a_node_but_where_a_change_ends_the_job(mode, tmp_path):
    lines = f"""
    mkdir -p "$DLRUN_JOB_DIR/code" "$DLRUN_RUN_DIR"; cd {tmp_path}
    export XDG_RUNTIME_DIR={tmp_path}
    echo one >{tmp_path}/train.py
    sha256sum {tmp_path}/train.py >"$DLRUN_JOB_DIR/code/files.sha256"
    again() {{ _dlrun_code_checked=; (dlrun_check_code {mode}; echo end) | grep -c changed || true; }}
    echo "a job $(again)"
    DLRUN_PLACE=0
    echo "a point $(again)"
    echo two >{tmp_path}/train.py
    echo "soon $(again)"
    note={tmp_path}/dlrun-ports-$UID/code
    read -r up rest <"$note"
    echo "$((up > 70 ? up - 61 : up + 61)) $rest" >"$note"
    echo "a minute later $(again)"
    echo "$up /other/job" >"$note"
    echo "after another job $(again)"
    """
    soon = int(mode == "strict")
    assert call(tmp_path, lines).stdout.splitlines() == [
        "a job 0", "a point 0", f"soon {soon}", "a minute later 1", "after another job 1",
    ]  # fmt: skip


def page(place, last: str) -> str:
    """The rank's page of a sweep with many points, the last of which has this value."""
    values = ", ".join([*map(str, range(POINTS - 1)), last])
    spec = (
        "command: [bash, -c, 'echo \"at $0\"', '{{ x }}']\nplacement: {bind: none}\n"
        "resources: {ranks_per_node: 1, walltime: 1h}\n"
        f"sweep: {{nodes: 1, points_per_node: 2, x: [{values}]}}\n"
    )
    write_job(plan_of(place, spec, LOCAL, directory="/"), place)
    return (place / "rank.sh").read_text()


def run(place, point: object) -> tuple[int, str]:
    """The exit code and the log of the rank of this point."""
    for name in ("logs", "failures", "ended", "usage"):
        (place / name).mkdir(exist_ok=True)
    (place / "logs/rank-0.log").unlink(missing_ok=True)
    names = {"JOB_DIR": place, "RUN_DIR": place, "RUN_ID": f"{os.getpid()}.0", "RANK": 0, "LOCAL_RANK": 0, "NODES": 1,
             "MASTER_ADDR": "here", "MASTER_PORT": 20000, "HOSTS": place / "hosts", "POINT": point, "PLACE": 0}  # fmt: skip
    environment = {
        "PATH": os.environ["PATH"],
        **{f"DLRUN_{name}": str(value) for name, value in names.items()},
    }
    done = subprocess.run(
        ["bash", place / "rank.sh", "rank"], cwd="/", env=environment, timeout=60, check=False
    )
    return done.returncode, (place / "logs/rank-0.log").read_text()


def test_of_a_page_with_many_points_one_line_is_read(tmp_path):
    text = page(tmp_path, '"it\'s $(last) ;; # esac"')
    assert "\ndlrun_run_point # " in text
    assert run(tmp_path, 0) == (0, "at 0\n")
    assert run(tmp_path, 250) == (0, "at 250\n")
    assert run(tmp_path, POINTS - 1) == (0, "at it's $(last) ;; # esac\n")
    assert run(tmp_path, POINTS)[0] == 2
    assert run(tmp_path, "250) echo wrong; exit 3;; #")[0] == 2
    cut = text.replace("\n*) dlrun_no_such_point ;;\n", "\n*) dlrun_no_such_point ;;\n(\n")
    assert cut != text
    (tmp_path / "rank.sh").write_text(cut)
    assert run(tmp_path, 250) == (0, "at 250\n"), "what follows the line was not parsed"
    (tmp_path / "rank.sh").write_text(text.replace("\n0) ", "\n# a line by hand\n0) "))
    assert run(tmp_path, 250) == (0, "at 250\n"), "a page that was changed by hand"


def test_a_page_with_a_value_of_several_lines_is_read_as_a_whole(tmp_path):
    text = page(tmp_path, '"two\\nlines"')
    assert "dlrun_run_point" not in text
    assert run(tmp_path, POINTS - 1) == (0, "at two\nlines\n")
