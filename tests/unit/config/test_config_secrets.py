"""Which names look like secrets, and that their values are hidden wherever a source is shown."""

from __future__ import annotations

import pytest

from dlrun.config.document import parse
from dlrun.config.secret_names import holds_secret, looks_secret, masked
from dlrun.config.secrets import faulty_secrets, hide, mask, plain_secrets
from dlrun.model.origin import Layer, Origin

FILE = Origin(layer=Layer.SPEC, name="spec.yaml")


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "PGPASSWORD", "MYSQL_PASSWORD",
        "apiKey", "hf_token", "COMET_APIKEY", "GITHUB_PAT", "KEY", "SSH_PASSPHRASE", "TOKENS", "GITHUBTOKEN",
        "HF_TOKEN_READ", "API_KEY_2", "PASSWORD_DB", "SECRET_KEY_BASE", "TOKEN_GITHUB", "APIKEY_OPENAI",
    ],
)  # fmt: skip
def test_secret(name):
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "KEYBOARD", "MONKEY", "TOKENIZERS_PARALLELISM", "HF_TOKENIZER", "NCCL_IB_PKEY", "UCX_IB_PKEY", "FI_KEY",
        "I_MPI_KEY", "OMPI_MCA_keyval_parser", "MAX_TOKENS", "TOKENS_PER_BATCH", "AWS_SHARED_CREDENTIALS_FILE",
        "SSH_KEY_PATH", "PATH", "SECRETARY", "KEYS_DIR", "MASTER_PORT", "", "_",
        "TOTAL_TOKENS", "NUM_TOKENS", "TRAIN_TOKENS", "KEY_FRAMES", "TOKENIZER", "PAD_TOKEN",
    ],
)  # fmt: skip
def test_harmless(name):
    assert not looks_secret(name)


@pytest.mark.parametrize(
    "text",
    [
        "TOKENS=2_000_000",
        "VALID_TOKENS=1e9",
        "TOKENS=20B",
        "TOKEN_DROPOUT=0.1",
        "API_KEY=/home/me/key",
        "HF_TOKEN=~/.hf",
        "USE_KEY=true",
    ],
)
def test_counts_paths_and_switches_are_no_secrets(text):
    name, _, value = text.partition("=")
    assert not holds_secret(name, value)
    assert masked(text) == text


@pytest.mark.parametrize("text", ["PGPASSWORD=12345678", "HF_TOKEN=abc", "API_KEY=/aB3+Zx9Qw7Er5Ty1Ui2"])
def test_other_values_are(text):
    name, _, value = text.partition("=")
    assert holds_secret(name, value)
    assert value not in masked(text)


def test_plain_values_are_problems_and_empty_ones_are_not():
    root = parse("environment: {variables: {HF_TOKEN: x, API_KEY: '', USE_KEY: true, A_KEY: [b]}}", FILE).root
    assert [p.code for p in plain_secrets(root)] == ["DLR001"]


HEX = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    "spec", ["sweep: {wandb_key: [1, HEX]}", "environment: {variables: {AUTH: HEX}}", "options: {login: HEX}",
             "sweep: {auth: &a [HEX], login: *a}", "{a: &a {auth: HEX}, b: *a}",
             "environment: {variables: {WANDB_API_KEY: HEX}}", "environment: {variables: {RSYNC: 'me:pw@host:/set'}}"],
)  # fmt: skip
def test_a_key_is_one_problem_wherever_it_stands(spec):
    text = spec.replace("HEX", HEX)
    root = parse(text, FILE).root
    assert [p.code for p in plain_secrets(root)] == ["DLR001"]
    assert HEX not in hide({"spec.yaml": text}, {"spec.yaml": root})["spec.yaml"]


@pytest.mark.parametrize(
    "spec",
    [
        "data: {login: HEX}",
        "sweep: {commit: [HEX]}",
        "secrets: {A: {env: HEX}}",
        "sweep: {auth: [none, basic]}",
    ],
)
def test_a_number_is_no_key(spec):
    assert list(plain_secrets(parse(spec.replace("HEX", HEX), FILE).root)) == []


@pytest.mark.parametrize(
    "text", ["A: {env: A}", "A: {file: x, env: null}", "A: {command: [pass, a]}", "A: canary"]
)
def test_one_source_is_enough(text):
    assert list(faulty_secrets(parse(f"secrets: {{{text}}}", FILE).root)) == []


@pytest.mark.parametrize("text", ["A: {}", "A: {env: A, file: x}", "A: {env: }"])
def test_exactly_one_source(text):
    assert [p.code for p in faulty_secrets(parse(f"secrets: {{{text}}}", FILE).root)] == ["DLR002"]


SOURCE = """\
name: x
environment:
  variables:
    HF_TOKEN: &t canary
    A: *t
    API_KEY: >-
      canary
      canary
    NESTED_KEY: {deep: [canary]}
secrets: {W: {command: [echo, canary]}}
data: {tokens: {source: /visible}}
"""


def test_hide_by_the_tree():
    tree = parse(SOURCE, FILE).root
    shown = hide({"spec.yaml": SOURCE}, {"spec.yaml": tree})["spec.yaml"]
    assert "canary" not in shown
    assert "/visible" in shown
    assert [len(line) for line in shown.splitlines()] == [len(line) for line in SOURCE.splitlines()]


def test_hide_without_a_tree():
    shown = hide({"spec.yaml": 'a: [\n  "HF_TOKEN": canary, b\n  lr: 1\n'}, {})["spec.yaml"]
    assert shown == 'a: [\n  "HF_TOKEN": ******* *\n  lr: 1\n'


def test_mask_keeps_everything_else():
    text = "name: x\r\ncommand: [--key, b]\n\n  tokenizer: y\n"
    assert mask(text) == text
