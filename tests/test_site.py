"""The documentation as a site: complete, without dead links, and nothing in it comes from elsewhere."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("mkdocs", reason="mkdocs is not installed: it is in the dependency group `docs`")
from docs import site


@pytest.mark.slow
def test_the_site_has_every_page_and_every_link_leads_somewhere(tmp_path):
    site.build(tmp_path / "site")
    built = {path.relative_to(tmp_path / "site") for path in tmp_path.rglob("*.html")}
    wanted = {path.relative_to(site.ROOT).with_suffix(".html") for path in site.pages()}
    shown_first = {path.with_stem("index") if path.stem == "README" else path for path in wanted}
    assert shown_first <= built
    elsewhere = re.compile(r'(?:src|rel="stylesheet" href)="?https?://')
    for path in (tmp_path / "site").rglob("*.html"):
        assert not elsewhere.search(path.read_text("utf-8")), path
