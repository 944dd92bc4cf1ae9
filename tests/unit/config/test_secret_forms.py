"""Secrets are recognised by their form, and what only looks alike is kept."""

from __future__ import annotations

import time

import pytest

from dlrun.config.secret_names import masked, without_secrets

SECRET = """\
https://user:PW@host/f?X-Amz-Signature=SIG
https://user:p/w@host/f
https://user:p@ss@host/f
https://abcdef0123@github.com/x
git+https://ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ012345@github.com/x
postgres://u:secret@db/x
redis://:secret@db/x
https://h/f?a=1&sig=abc%3D
https://h/f?sv=1&se=2&sig=ZZ
https://h/f?X-Amz-Credential=AK&X-Amz-Signature=deadbeef
https://h/f?x-goog-signature=deadbeef
https://h/f?access_token=1234
https://h/f?token=canary
https://h/f?apikey=canary
https://h/f#access_token=canary
https://proxy/?url=https%3A%2F%2Fh%2Ff%3FX-Amz-Signature%3DSIG
http://h/f;token=canary
https://h/f?X-Amz%2DSignature=SIG
curl -H 'Authorization: Bearer canary' x
Authorization: Basic dXNlcjpwdw==
Bearer abc123def456
--token canary-123-abc
--token=canary-123-abc
--hf-token "canary-123-abc"
"--api-key", "canary1234"
--password hunter2
--db-password=hunter2
export WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567
HF_TOKEN=hf_canaryvalue python x
hf_abcdefghijklmnopqrstuvwxyzABCDEFGH
glpat-abcdefghijklmnopqrst
AKIAIOSFODNN7EXAMPLE
sk-proj-abcdefghijklmnopqrstuvwx
eyJhbGciOi.eyJzdWIiOiIx.abc_-1
-----BEGIN OPENSSH PRIVATE KEY-----
trainer.token=canary-123-abc
wandb.api_key=canary-123-abc
{"api_key": "canary-123-abc"}
s3://AKIAIOSFODNN7EXAMPLE:abcdefg@bucket/key
X-Api-Key: canary12345
https://user@host/x
""".splitlines()
NONE = """\
https://host:8080/x@y
curl -H "Authorization: Bearer $T" https://host
curl -H "Authorization: Bearer ***" https://host
Authorization: token ${T}
https://host/f?X-Amz-Signature=$SIG
https://user:$PW@host/f
https://{{ user }}:{{ pw }}@host
ssh://git@github.com/x
git@github.com:x/y
http://[::1]:80/x@y
--max-tokens 4096
--tokens 100000000
--pad-token endoftext
--eos-token "<|endoftext|>"
--tokenizer bert-base-uncased
--key features_v2
--keys image label
https://h/f?key=imagenet/train.tar
https://h/f?version=12&prefix=tokens
NCCL_IB_PKEY=12345
s3://bucket/prefix
--token-file /home/x/token
--token $HF_TOKEN
--token {{ x }}
secrets: {HF_TOKEN: {env: HF_TOKEN}}
secrets: {HF_TOKEN: {file: ~/.hf-token}}
API_KEY=/etc/key
sk-learn-pipeline-with-a-long-name
run-resnet50-hf_model
--secret-santa present
the bearer authentication failed
a token is missing in the header
--train-tokens 3e9
TOKENIZERS_PARALLELISM=false
--image-token <image>
--master-key-path x
http://host:$PORT/a@b
the password is wrong
token: invalid argument given
KEY=VALUE and NAME=VALUE
write `NAME: {env: NAME}`
hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
""".splitlines()


@pytest.mark.parametrize("text", SECRET)
def test_secret(text):
    assert without_secrets(text) != text
    for secret in ("canary", "PW", "SIG", "hunter2", "deadbeef", "0123456789", "abcdefgh", "AKIA"):
        assert secret not in without_secrets(text).replace("X-Amz-Signature", "").replace(
            "X-Amz%2DSignature", ""
        )


@pytest.mark.parametrize("text", NONE)
def test_no_secret(text):
    assert without_secrets(text) == text


def test_the_length_can_stay():
    text = (
        "a https://me:secret@host/f?sig=abc b\n-----BEGIN PRIVATE KEY-----\nab\n-----END PRIVATE KEY----- c"
    )
    hidden = without_secrets(text, same_length=True)
    assert len(hidden) == len(text)
    assert hidden.count("\n") == 3
    assert hidden.endswith("* c")
    assert "https://*********@host/f?sig=*** b" in hidden


def test_a_line_is_masked_by_name_and_by_form():
    assert masked("--api-key=abc") == "--api-key=***"
    assert masked("HF_TOKEN: abc") == "HF_TOKEN: ***"


@pytest.mark.parametrize(
    "piece",
    ["a", "a://b:", "-a ", "?a=", "-----BEGIN PRIVATE KEY-----", "bearer ", "--token ", "a=", "%3Fsig%3D"],
)
def test_long_texts_take_no_long_time(piece):
    begun = time.process_time()
    without_secrets("http://" + piece * (300_000 // len(piece)))
    assert time.process_time() - begun < 10
