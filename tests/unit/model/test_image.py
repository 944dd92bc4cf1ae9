"""Names of images: the registry that has it, and the URI of exactly one."""

from __future__ import annotations

import pytest

from dlrun.model.program import ImageSource, is_pulled, parse_image

DIGEST = f"sha256:{'ab' * 32}"


@pytest.mark.parametrize(
    ("uri", "registry"),
    [
        ("docker://ubuntu", ("registry-1.docker.io", "library/ubuntu", "latest")),
        ("docker://pytorch/pytorch:2.9", ("registry-1.docker.io", "pytorch/pytorch", "2.9")),
        ("docker://docker.io/ubuntu:24.04", ("registry-1.docker.io", "library/ubuntu", "24.04")),
        ("docker://nvcr.io/nvidia/pytorch:25.01-py3", ("nvcr.io", "nvidia/pytorch", "25.01-py3")),
        ("docker://localhost:5000/a/b", ("localhost:5000", "a/b", "latest")),
        ("docker://localhost/a", ("localhost", "a", "latest")),
        (f"oras://ghcr.io/a/b:1@{DIGEST}", ("ghcr.io", "a/b", DIGEST)),
        ("library://a/b/c:1", None),
        ("https://example.org/a.sif", None),
    ],
)
def test_the_registry_of_a_name(uri, registry):
    assert parse_image(uri).registry == registry


def test_one_image_is_pulled_by_its_digest_without_its_tag():
    assert ImageSource(uri="docker://a:5000/b:1", digest=DIGEST).pinned == f"docker://a:5000/b@{DIGEST}"
    assert parse_image(f"docker://a/b:1@{DIGEST}").digest == DIGEST
    assert parse_image(f"docker://a/b:1@{DIGEST}").pinned == f"docker://a/b@{DIGEST}"
    assert ImageSource(uri="docker://a/b:1", digest=DIGEST, of_file=True).pinned == "docker://a/b:1"
    assert parse_image("https://example.org/a.sif").pinned == "https://example.org/a.sif"


def test_what_the_runtime_downloads():
    pulled = ("docker://a", "oras://a/b", "library://a", "shub://a/b", "https://a/b.sif", "http://a/b.sif")
    assert all(map(is_pulled, pulled))
    assert not any(
        map(is_pulled, ("a.sif", "/a/docker://b", "docker-archive:a.tar", "instance://a", "docker://"))
    )
