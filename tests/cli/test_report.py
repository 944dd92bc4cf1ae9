"""`dlrun usage --page`: a page of real jobs, opened in a real browser, which loads nothing and runs no script."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.programs import need

SPEC = """\
name: a <b>bold</b> job
run: |
  echo 'epoch 1 95 images/s'; echo 'epoch 2 97 images/s'; echo '<script>document.title = "owned"</script>'; sleep 1; exit {code}
resources: {{ranks_per_node: 2, walltime: 10m}}
"""


def page_of(dlrun, code: int) -> Path:
    spec = dlrun.spec(SPEC.format(code=code))
    dlrun("submit", spec, "--wait", code=code)
    assert dlrun("report", "latest", "-o", "report.html").stdout == "report.html\n"
    return dlrun.place / "report.html"


def opened(page: Path, *options: str) -> str:
    """The page's document as a browser has it after loading."""
    command = [
        need("browser"),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={page.parent / 'profile'}",
        *options,
    ]
    return subprocess.run(
        [*command, page.as_uri()], capture_output=True, text=True, check=True, timeout=120
    ).stdout


@pytest.mark.slow
@pytest.mark.needs("browser")
@pytest.mark.parametrize("code", [0, 3])
def test_a_page_opens_in_a_browser_and_shows_the_job(dlrun, code):
    page = page_of(dlrun, code)
    document = opened(page, "--dump-dom")
    assert "owned" not in re.search(r"<title>(.*?)</title>", document)[1], "a log line must not become markup"
    assert "&lt;script&gt;document.title" in document
    assert "a &lt;b&gt;bold&lt;/b&gt; job" in document
    for part in (
        "Timeline",
        "queue",
        "set-up and staging",
        "training",
        "Results",
        "Variables",
        "logs/rank-0.log",
    ):
        assert part in document
    assert "epoch 2 97 images/s" in document
    assert ("<h2>Why</h2>" in document) == (code != 0)
    assert ('class="state good"' in document) == (code == 0)
    picture = page.parent / "page.png"
    opened(page, f"--screenshot={picture}", "--window-size=1100,1600")
    assert picture.stat().st_size > 20_000


def test_a_page_is_one_file_that_loads_nothing(dlrun):
    text = page_of(dlrun, 0).read_text()
    assert "default-src 'none'" in text
    assert not re.search(
        r"<(?:script|img|link|iframe|object)\b|\b(?:src|href)=|url\(|@import",
        re.sub(r"<pre>.*?</pre>", "", text, flags=re.DOTALL),
    )
    assert "cannot write" in dlrun("report", "latest", "-o", "/proc/x.html", code=1).stderr


@pytest.mark.slow
def test_a_page_shows_no_secret(dlrun):
    (dlrun.place / "careless.sh").write_text(
        "echo HF_TOKEN=hf_1234567890abcdef\necho https://u:canary@h/f?X-Amz-Signature=canary\n"
        "echo -----BEGIN PRIVATE KEY-----\necho canary\necho -----END PRIVATE KEY-----\n"
        "echo Authorization: Bearer canary1\necho train.py --token canary-of-a-token\necho fine\n"
    )
    spec = dlrun.spec("run: bash careless.sh\nresources: {ranks_per_node: 1}\n")
    dlrun("submit", spec, "--wait")
    dlrun("report", "latest", "-o", "report.html")
    text = (dlrun.place / "report.html").read_text()
    assert "fine" in text
    assert "hf_1234567890" not in text
    assert "canary" not in text
