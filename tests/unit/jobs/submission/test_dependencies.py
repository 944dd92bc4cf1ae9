"""Jobs under `after`: by their names, and by ids as each scheduler prints them."""

from __future__ import annotations

import json

import pytest

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.jobs.records import directories
from dlrun.jobs.records.jobs import find
from dlrun.jobs.submission.prepare import dependencies
from dlrun.model.spec import After, Spec
from dlrun.render.written_names import WrittenNames


def ids(word, scheduler, base):
    spec = Spec(name="next", command=("true",), after=(After(job=word),))
    return [one.job_id for one in dependencies(spec, scheduler, base)]


@pytest.fixture
def base(tmp_path):
    for name, job_id in (("fA1-1", "fXyZ"), ("fB2-1", "fQ1"), ("fB2-2", "fQ2")):
        plan = json.dumps({"name": name, "site": "s", "scheduler": "flux"})
        directories.create(tmp_path / name, {"job.sh": "#!/bin/bash\n", "plan.json": plan}, WrittenNames())
        directories.write_json(tmp_path / name / directories.SUBMISSION, {"job_id": job_id, "submitted": 1.0})
    return tmp_path


FORMS = (
    "ƒR4v9MqyH",
    "fR4v9MqyH",
    "0x3054c9000000",
    "job.0000.3054.c900.0000",
    "0000.3054.c900.0000",
    "53140707606528",
)
"""As `flux job id --to=…` prints one id."""


@pytest.mark.parametrize("word", FORMS)
def test_ids_as_flux_prints_them(base, word):
    (found,) = ids(word, "flux", base)
    assert backends.scheduler("flux").recorded(found) == "fR4v9MqyH"


@pytest.mark.parametrize("word", FORMS)
def test_a_job_of_flux_is_found_by_each_form_of_its_id(base, word):
    directories.write_json(base / "fB2-1" / directories.SUBMISSION, {"job_id": "fR4v9MqyH", "submitted": 1.0})
    assert find(word, base).directory.name == "fB2-1"


def test_names_come_before_ids(base):
    assert ids("fA1", "flux", base) == ["fXyZ"]
    with pytest.raises(Invalid, match="2 jobs"):
        ids("fB2", "flux", base)


@pytest.mark.parametrize(
    ("word", "scheduler"),
    [("first", "flux"), ("fe3mg4rb", "slurm"), ("ƒe3mg4rb", "openpbs"), ("train", "flux")],
)
def test_other_words_are_names(base, word, scheduler):
    with pytest.raises(Invalid, match="no job"):
        ids(word, scheduler, base)
