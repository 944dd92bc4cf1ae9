"""The table of known errors of `dlrun why`: each text is of one form, and is found as that form."""

from __future__ import annotations

from collections import Counter

import pytest

from dlrun.why.known.causes import CAUSES
from dlrun.why.known.form import Form, patterns_of
from dlrun.why.known.table import WRITERS
from dlrun.why.matching import Table


def test_a_form_of_several_writers_is_written_in_one_place():
    """Its copies would be corrected one by one."""
    first: dict[Form, Form] = {}
    forms = [form for writer in WRITERS for form in writer.forms]
    assert [form for form in forms if first.setdefault(form, form) is not form] == []


def test_a_text_is_of_one_form():
    """The first of two would always be reported, and the page would show the other one's way out, too.

    Libraries that mark their lines may print the same words.
    """
    texts = (
        text
        for writer in WRITERS
        for form in writer.forms
        if not form.stack and (form.anywhere or not writer.line)
        for text in form.texts
    )
    found = Counter(texts)
    assert [text for text, number in found.items() if number > 1] == []


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.name)
def test_every_text_of_the_table_is_found_as_its_form(writer):
    """A text that another form hides, or that its own pattern does not match, would be documented and never reported.

    What is reported must be what the page shows for the text: its cause, its meaning, its check and its way out.
    """
    assert writer.source.startswith("https://")
    hidden = []
    for form in writer.forms:
        assert form.source.startswith("https://") or not form.source
        own = _answer(patterns_of(form, writer, CAUSES[form.cause])[0])
        for text in () if form.stack else form.texts:  # those have a case in the corpus
            found = [_of_its_own(writer.name, text, name) for name in ("x1", "a.example.org")]
            bare = Table().match(_line(text, "x1"))
            answers = [_answer(pattern) for pattern in (*found, bare and bare.pattern) if pattern]
            if own not in answers or all(pattern is None or pattern.cause != form.cause for pattern in found):
                hidden.append((text, own, answers))
    assert hidden == []


def _answer(pattern):
    return pattern.cause, pattern.means, pattern.named, pattern.check, pattern.next


def _line(text: str, name: str) -> str:
    return text.replace("{1}", name).replace("{}", "7")


MARKS = {
    "Flux": "flux-job: ",
    "the system": "program: ",
    "NCCL": "n1:1:2 [0] a.cc:1 NCCL WARN ",
    "Gloo": "[gloo/transport/tcp/pair.cc:1] ",
    "PyTorch process groups": "[rank0]: torch.distributed.DistBackendError: ",
    "UCX": "[17.1] [n1:1 :0] a.c:1  UCX  ERROR ",
    "libfabric": "libfabric:1:17::core:error: ",
    "verbs": "ibv_open_device: ",
    "the kernel about adapters": "mlx5_core 0000:c1:00.0: ",
    "UCX between ranks of a node": "[17.1] [n1:1 :0] mm_ep.c:1  UCX  ERROR ",
    "Apptainer and Singularity": "FATAL:   ",
    "enroot and pyxis": "slurmstepd: error: pyxis: ",
    "NVSHMEM": "/src/nvshmem/src/host/init/init.cu:1: ",
    "Ray": "ray.exceptions.RayError: ",
    "experiment trackers": "wandb: ERROR ",
}


def _of_its_own(writer: str, text: str, name: str):
    """What is found in the text with the mark of its library, if that is how its lines are known, or without."""
    table = Table()
    for start in (MARKS.get(writer, ""), ""):
        match = table.match(start + _line(text, name))
        if match is not None and match.pattern.writer == writer:
            return match.pattern
    return match.pattern if match is not None else None


def test_the_frame_around_a_message_of_click_is_not_a_part_of_it():
    match = Table().match("│ Missing option '--lr'.                  │")
    assert match is not None
    assert match.values == ("Missing option '--lr'.",)
