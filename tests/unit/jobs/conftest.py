"""Each test meets other schedulers: which cluster answers is asked anew."""

from __future__ import annotations

import pytest

from dlrun.jobs.clusters import batch


@pytest.fixture(autouse=True)
def no_cluster_known(monkeypatch):
    monkeypatch.setattr(batch, "_answering", {})
