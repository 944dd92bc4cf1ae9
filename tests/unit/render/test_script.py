"""What is in the scripts because of the plan, beyond what the golden jobs show."""

from __future__ import annotations

import json
import re

import jinja2
import pytest

from dlrun.model.json_codec import from_plain
from dlrun.model.plan import Plan
from dlrun.render.script import plan_json, scripts
from tests.making import LOCAL, NODES, SLURM, plan_of, scripts_of

EXPORT = re.compile(r"^\s*export ([A-Z_][A-Z0-9_]*)=.*?( # .+)?$", re.MULTILINE)


def test_every_variable_of_the_plan_is_exported_with_its_reason(tmp_path):
    spec = "environment: {variables: {A: x, B_2: 'y z'}}\nresources: {nodes: 2}\ndata: {set: /x/y}"
    plan = plan_of(tmp_path, spec, SLURM + NODES)
    made = scripts_of(plan)
    commented = {m[1] for script in made.values() for m in EXPORT.finditer(script) if m[2]}
    wanted = {v.name for v in plan.variables} | {v.name for role in plan.roles for v in role.variables}
    assert {"A", "B_2", "OMP_NUM_THREADS", "MASTER_ADDR", "DLRUN_DATA_SET"} <= wanted
    assert wanted <= commented


def test_the_job_directory_is_quoted(tmp_path):
    made = scripts_of(plan_of(tmp_path, "resources: {nodes: 1}"), "/home/ada/it's $HERE/`id`")
    assert "export DLRUN_JOB_DIR='/home/ada/it'\"'\"'s $HERE/`id`' # " in made["job.sh"]
    assert "HERE" not in made["rank.sh"]


def test_a_name_cannot_leave_its_comment(tmp_path):
    plan = plan_of(tmp_path, 'name: "a\\u2028xyzzy\\u0085b"', LOCAL)
    lines = [line for text in scripts_of(plan).values() for line in text.splitlines() if "xyzzy" in line]
    assert len(lines) == 2
    assert all(line.startswith("# ") for line in lines)


def test_a_word_with_a_nul_byte_is_refused(tmp_path):
    plan = plan_of(tmp_path, "resources: {nodes: 1}")
    argument = plan_json(plan).replace('"./train"', '"a\\u0000b"')
    with pytest.raises(ValueError, match="NUL"):
        scripts_of(from_plain(Plan, json.loads(argument)))


def test_an_undefined_name_in_a_template_is_an_error(tmp_path):
    for name, text in {"job.sh.j2": "{{ plan.nmae }}", "rank.sh.j2": "{% if plan.oops %}{% endif %}"}.items():
        (tmp_path / "job.sh.j2").write_text("")
        (tmp_path / "rank.sh.j2").write_text("")
        (tmp_path / name).write_text(text)
        with pytest.raises(jinja2.UndefinedError):
            scripts(plan_of(tmp_path, "resources: {nodes: 1}"), "/x", tmp_path)


def test_templates_quote_by_default(tmp_path):
    (tmp_path / "job.sh.j2").write_text(
        "echo {{ plan.name }} {{ plan.name | raw }} # {{ plan.name | comment }}"
    )
    (tmp_path / "rank.sh.j2").write_text("")
    plan = plan_of(tmp_path, "name: $(id) x")
    assert scripts(plan, "/x", tmp_path)["job.sh"] == "echo '$(id) x' $(id) x # $(id) x"


def test_a_plan_on_disk_is_utf8_and_whole(tmp_path):
    plan = plan_of(tmp_path, "name: größe\ncommand: [./train, ✓]")
    text = plan_json(plan)
    assert "größe" in text
    assert "✓" in text
    assert from_plain(Plan, json.loads(text)) == plan


def test_ten_thousand_nodes_are_one_table(tmp_path):
    plan = plan_of(tmp_path, "resources: {nodes: 10000, exclusive: true}", SLURM + NODES)
    made = scripts_of(plan)
    assert plan.request.ranks == 20000
    assert sum(map(len, made.values())) < 40000
