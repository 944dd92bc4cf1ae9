"""Jobs under `after`: by their names, and by ids as each scheduler prints them."""

from __future__ import annotations

import json

import pytest

from dlrun.errors import Invalid
from dlrun.jobs.records import directories
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


@pytest.mark.parametrize("word", ["fe3mg4rb", "ƒe3mg4rb", "37228642304", "fXyZ"])
def test_ids_as_flux_prints_them(base, word):
    assert ids(word, "flux", base) == [word]


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
