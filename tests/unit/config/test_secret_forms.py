"""Secrets are recognised by their form, and what only looks alike is kept."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dlrun.config.secret_names import masked, secrets_in, without_secrets

ROOT = Path(__file__).parents[3]
TEXTS = {".yaml", ".yml", ".sh", ".md", ".py", ".json", ".csv", ".toml", ".txt", ".bash"}
SECRET = """\
https://user:PW@host/f?X-Amz-Signature=SIG
https://user:p/w@host/f
https://user:p@ss@host/f
https://abcdef0123@github.com/x
git+https://ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ012345@github.com/x
postgres://u:secret@db/x
redis://:secret@db/x
https:/me:canary-123@h/site.yaml
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
--wandb-key=deadbeef0123456789deadbeef0123456789dead
--wandb=deadbeef0123456789deadbeef0123456789dead
--auth deadbeef0123456789deadbeef01234567
"--wandb_pw", "DEADBEEF0123456789DEADBEEF0123456789DEAD"
trainer.login=deadbeef0123456789deadbeef0123456789dead
WANDB_API_KEY=deadbeef0123456789deadbeef0123456789dead
SESSION_ID=deadbeef0123456789deadbeef0123456789dead python x
X-Auth: deadbeef0123456789deadbeef0123456789dead
Authorization: Bearer deadbeef0123456789deadbeef0123456789dead
Authorization: deadbeef0123456789deadbeef0123456789dead
wandb.login("deadbeef0123456789deadbeef0123456789dead")
https://h/f?session=deadbeef0123456789deadbeef0123456789dead
user:PW@host:/path
rsync -a me:canary@host.example.org:~/set .
me:canary@192.0.2.7:/set
me:canary@[2001:db8::7]:/set
me:canary-123@host/db
http_proxy=me:canary@proxy:3128
"me:canary-123@host"
me%3Acanary@host:/set
me%40example.org:canary@host:/set
me%3Acanary%40host:/set
https://user%3APW@host/f
https://user%3aPW%40host/f
s3://deadbeef%3Acanary@bucket/key
rsync://me%3Acanary@host/set
ssh://me%253Acanary@host/set
https%3A%2F%2Fuser%3APW%40host%2Ff
https%253A%252F%252Fuser%253APW%2540host%252Ff
https%3A%2F%2Fcanary%40host%2Ff
""".splitlines()
LETTERS, HEX = "canary7" * 30, "deadbeef0123456789" * 8
TOKENS = [
    *(f"{prefix}{LETTERS[:length]}" for prefix, length in {
        "ghs_123456_": 40, "gloas-": 64, "glft-": 20, "glimt-": 25, "glagent-": 50, "glffct-": 20, "glrtr-": 20, "glwt-": 20,
        "ABSK": 110, "bedrock-api-key-": 40, "sk-proj-a_-": 60, "sk-ant-oat01-": 90, "sk-or-v1-": 64, "gsk_": 52, "xai-": 80,
        "r8_": 37, "pplx-": 48, "tgp_v1_": 43, "1//0": 60, "AQ.Ab8": 48, "xapp-1-A0123-1234-": 64, "xoxe.xoxp-1-": 140,
        "whsec_": 32, "dckr_oat_": 32, "abc8Q~": 34, "hvs.": 95, "hvb.": 140, "abcdefgh012345.atlasv1.": 65, "dp.pt.": 43,
        "glc_": 60, "glsa_": 32, "lin_api_": 40, "ntn_": 46, "figd_": 40, "ATATT3xFf": 180, "eyJhcGlfYWRkcmVzcyI6": 60,
        "rpa_": 46, "fw_": 24, "sb_secret_": 31, "123456789:AA": 33,
    }.items()),
    *(f"{prefix}{HEX[:length]}" for prefix, length in {
        "pul-": 40, "dop_v1_": 64, "shpat_": 32, "KGAT_": 32, "sbp_": 40, "dapi": 32,
    }.items()),
    f"AGE-SECRET-KEY-1{LETTERS[:58].upper()}", f"SG.{LETTERS[:22]}.{LETTERS[:43]}",
]  # fmt: skip
COMMANDS = """\
curl -u me:canary-123 https://host/f
curl -sSL --user 'me:canary-123' https://host/f
curl -ume:canary-123 https://host/f
curl -o out -b session=canary-123 https://host/f
sshpass -p canary-123 ssh host
sshpass -pcanary-123 ssh host
mysql -u me -pcanary-123 db
mysqldump -h host -pcanary-123 db
docker login -u me -p canary-123 registry.io
apptainer registry login --username me -p canary-123 docker://registry.io
wandb login deadbeef0123456789deadbeef0123456789dead
wandb login --relogin deadbeef0123456789deadbeef0123456789dead
machine api.wandb.ai login user password canary
mpirun -x HF_TOKEN=canary-123-abc python train.py
docker run -e WANDB_API_KEY=canary-123-abc image
curl -H 'X-Api-Key: canary-12345' https://host
curl -H "PRIVATE-TOKEN: canary-12345" https://host
curl -H 'Authorization: Key canary-12345' https://host
curl -H 'Authorization: ApiKey canary-12345' https://host
curl -H 'Authorization: MyScheme canary-12345' https://host
Authorization: AWS4-HMAC-SHA256 Credential=canary/x, SignedHeaders=host, Signature=canary0123
curl -H 'Cookie: session=canary-12345; other=canary-12345' https://host
https://hooks.slack.com/services/T00000000/B00000000/canarycanarycanary
https://discord.com/api/webhooks/123456789012345678/canarycanarycanary
https://api.telegram.org/bot123456789:canarycanary/sendMessage
https://f.azurewebsites.net/api?code=canarycanary0123456789==
""".splitlines()
NONE = """\
curl -u $USER:$PASSWORD https://host/f
curl -u "$AUTH" https://host:8080/f
curl -b cookies.txt https://host/f
curl -b /tmp/a=b https://host/f
docker run -p 8080:80 image
docker login -u me --password-stdin registry.io
mysql -p -u me db
sshpass -p "$PASSWORD" ssh host
wandb login $WANDB_API_KEY
wandb login --relogin
mpirun -x HF_TOKEN -x NCCL_DEBUG=INFO python train.py
Authorization: see the guide
authorization: ask your administrator
cookie: none was sent
machine learning login node password
https://host/f?code=42
https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
sk-proj-the-name-of-a-long-experiment
run r8_final of xai-explanations
hvs.something
AQ.Ab
curl https://host/f -o a:b
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
PATH=/usr/bin:/opt/a:b@c
--bind=/a:/b:ro@x
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
fw_withoutanydigitsinitatall
fw_update_the_weights_of_layer_12
git checkout deadbeef0123456789deadbeef0123456789dead
--revision=deadbeef0123456789deadbeef0123456789dead
sha256: deadbeef0123456789deadbeef0123456789deadbeef0123456789deadbeef01
--wandb=resnet50_on_imagenet_run_12
--session 2026-01-01_resnet50_on_imagenet
--pass=12345678901234567890123456789012345
--auth $AUTH
git@host:/path
git@github.com:x/y@v1
ssh:git@host:/path
me@host:/path
me@host:22:/path
host:dir@v1/x
me@a:22,me@b:22
a:22,me@b:22
mailto:me2026abc@example.org
email:me2026abc@example.org:/x
$USER:$PW@host:/path
me:$PW@host:/path
me:<password>@host:/path
me%3A$PW@host:/path
docker://nvcr.io/nvidia/pytorch:24.10-py3@sha256:deadbeef0123456789
pytorch:24.10-py3@sha256:deadbeef0123456789
-W depend=afterok:123.server@other:15001
-W depend=before:123.server1@other
1:ncpus=4@host:/x
hdf5@1.10:1.12%gcc@11:
libc.so.6:memcpy12@GLIBC_2.14
db@a:b=c
user:me@host
https://h/x@y:/z
https://h/x%40y:/z
https://h/f?mail=me%40example.org
https%3A%2F%2Fh%2Ff%3Fmail=me%40example.org
https%3A%2F%2Fh%3A80%2Fx%40y
https%3A%2F%2F$USER%3A$PW%40host
ssh%3A%2F%2Fgit%40github.com%2Fx
""".splitlines()


@pytest.mark.parametrize("text", [*SECRET, *TOKENS, *COMMANDS])
def test_secret(text):
    assert without_secrets(text) != text
    for secret in ("canary", "PW", "SIG", "hunter2", "deadbeef", "0123456789", "abcdefgh", "AKIA"):
        assert secret not in without_secrets(text).replace("X-Amz-Signature", "").replace(
            "X-Amz%2DSignature", ""
        )


@pytest.mark.parametrize("text", NONE)
def test_no_secret(text):
    assert without_secrets(text) == text


@pytest.mark.parametrize("folder", ["examples", "site-configs", "templates", "tests/golden"])
def test_nothing_of_what_dlrun_shows_looks_like_one(folder):
    texts = {
        path: path.read_text()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix in TEXTS
    }
    assert len(texts) > 20
    for path, text in texts.items():
        assert [line for line in text.split("\n") if without_secrets(line) != line] == [], path


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "a://b:",
        "-a ",
        "?a=",
        "-----BEGIN PRIVATE KEY-----",
        "bearer ",
        "--token ",
        "a=",
        "%3Fsig%3D",
        "a:b@",
        "a:",
        "a%3A",
        "@",
        "%40",
        "a%3A%2F%2Fb%3A",
        "a.",
        "a:bc@d.",
    ],
)
def test_long_texts_take_no_long_time(piece):
    begun = time.process_time()
    without_secrets("http://" + piece * (300_000 // len(piece)))
    assert time.process_time() - begun < 60


def test_a_token_is_recognised_by_what_all_of_its_form_have():
    """Only the forms whose fixed part is in a text are looked for."""
    digits, text = "0123456789abcdef" * 4, "A1b2C3d4E5f6G7h8" * 5
    tokens = [
        f"ghp_{text[:36]}", f"github_pat_{text[:30]}", f"glpat-{text[:20]}", f"glsa_{text[:32]}", f"hf_{text[:34]}",
        f"AKIA{'A1B2' * 4}", f"ASIA{'A1B2' * 4}", f"sk-proj-{text[:40]}", f"sk-{text[:48]}", f"rk_live_{text[:24]}",
        f"xoxb-{text[:24]}", f"hvs.{text[:24]}", f"dop_v1_{digits}", f"ATATT3{text[:70]}", f"shpat_{digits[:32]}",
        f"abc8Q~{text[:32]}", f"{text[:14]}.atlasv1.{text[:60]}", f"bot123456789:AA{text[:33]}", f"1//0{text[:48]}",
    ]  # fmt: skip
    assert [token for token in tokens if not list(secrets_in(f"x {token}"))] == []
    together = " ".join(tokens)
    assert len({(span.begin, span.end) for span in secrets_in(together)}) >= len(tokens)
