"""No secret in a command line survives the gate to the disk; what is no secret stays readable."""

from __future__ import annotations

import shlex
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtop.hold.redact import REDACTED, is_secret_name, redact_argv, redact_command, redact_text

#: Random, and with a letter that no option, name or stand-in of these tests has.
SECRETS = st.text(string.ascii_lowercase + string.digits, min_size=8, max_size=40).map(lambda s: "q7" + s)
#: Anything an argument may hold: no NUL, bytes that are no UTF-8 as surrogates.
ARGUMENTS = st.text(st.characters(exclude_characters="\0", exclude_categories=()), max_size=30)
NAMES = st.sampled_from(
    [
        "token",
        "password",
        "API_KEY",
        "HF_TOKEN",
        "aws_secret_access_key",
        "client-secret",
        "PGPASSWORD",
        "accessToken",
    ]
)

FORMS = [
    ["--{name}={secret}"],
    ["--{name}", "{secret}"],
    ["-{name}", "{secret}"],
    ["{name}={secret}"],
    ["{name}={secret} with blanks ; {secret} & {secret}"],
    ["-e", "{name}={secret}"],
    ["sh", "-c", "{name}={secret} ./train.py --lr 3"],
    ["bash", "-lc", "cd x && ./train.py --{name} '{secret} {secret}' --lr 3"],
    ["sh", "-c", 'export {name}="{secret} \\" {secret}"; ./train.py'],
    ["--json", '{{"{name}": "{secret}"}}'],
    ["curl", "https://host/path?a=b&{name}={secret}&c=d"],
    ["curl", "-H", "X-{name}: {secret}"],
    ["curl", "-H", "Authorization: Bearer {secret}"],
    ["curl", "-H", "authorization: Basic {secret}=="],
    ["sh", "-c", "curl -H 'Authorization: token {secret}' http://host"],
    ["curl", "-u", "me:{secret}", "http://host"],
    ["curl", "-ume:{secret}", "http://host"],
    ["curl", "--user=me:{secret}", "http://host"],
    ["sh", "-c", "curl -u me:{secret} http://host"],
    ["sshpass", "-p{secret}", "ssh", "host"],
    ["docker", "login", "-u", "me", "-p", "{secret}"],
    ["sh", "-c", "docker login -u me -p {secret} host"],
    ["mysql", "-u", "me", "-p{secret}", "db"],
    ["redis-cli", "-a", "{secret}"],
    ["OPENAI_KEY={secret}", "./run"],
    ["curl", "https://host/x?a=b&sig={secret}"],
    ["echo", "the password is {secret}, and passphrase {secret}"],
    ["git", "clone", "https://me:{secret}@host/x.git"],
    ["git", "clone", "https://me:{secret}@{secret}@host/x.git"],
    ["git", "clone", "https://{secret}{secret}@host/x.git"],
    ["psql", "postgresql://me:{secret}@host:5432/db"],
    ["echo", "ghp_{secret}"],
    ["echo", "x:github_pat_{secret}/y"],
    ["echo", "sk-proj-{secret}"],
    ["echo", "hf_{secret}"],
    ["echo", "xoxb-{secret}"],
    ["echo", "eyJhbGciOi.{secret}.{secret}"],
    ["echo", "-----BEGIN RSA PRIVATE KEY-----\n{secret}\n-----END RSA PRIVATE KEY-----"],
    ["echo", "bearer {secret}"],
]


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
@given(name=NAMES, secret=SECRETS)
def test_no_form_lets_a_secret_through(form: list[str], name: str, secret: str) -> None:
    argv = [word.format(name=name, secret=secret) for word in form]
    assert secret not in redact_command(argv)
    assert len(redact_argv(argv)) == len(argv)


def test_aws_key_by_shape() -> None:
    assert redact_argv(["echo", "AKIAIOSFODNN7EXAMPLE"]) == ["echo", REDACTED]


@given(before=st.lists(ARGUMENTS, max_size=3), secret=SECRETS, after=st.lists(ARGUMENTS, max_size=3))
def test_neighbours_cannot_shield_a_secret(before: list[str], secret: str, after: list[str]) -> None:
    """Whatever stands around it: a token of a known shape, an assignment and a URL lose their secret."""
    middle = [f"--token={secret}", f"ghp_{secret}", f"https://u:{secret}@h"]
    assert secret not in redact_command([*before, *middle, *after])


@given(st.lists(ARGUMENTS, max_size=6))
def test_any_arguments_give_one_parsable_line_and_are_stable(argv: list[str]) -> None:
    once = redact_argv(argv)
    assert redact_argv(once) == once
    assert shlex.split(redact_command(argv)) == once


@pytest.mark.parametrize(
    "argv",
    [
        ["python", "train.py", "--max-tokens", "512", "--tokenizer=gpt2", "--sort-key", "name"],
        ["holdtop", "run", "--lane", "ci-7", "--", "sh", "-c", "make -j4 && ./serve --port 8080; exit 3"],
        [
            "rm",
            "/var/lib/x/gpu-token",
            "GPU_TOKEN_FILE=/x/gpu-token",
            "--password-file",
            "/run/pw",
            "PWD=/home/x",
        ],
        ["docker", "run", "-u", "1000:1000", "-p", "80:80", "ssh://git@host/x", "task-4711-abcdefghijklm"],
        ["serve", "--no-auth", "model.gguf", "--author", "me", "--compass", "north"],
    ],
)
def test_what_is_no_secret_stays(argv: list[str]) -> None:
    assert redact_argv(argv) == argv


def test_an_option_without_value_hides_no_other_option() -> None:
    assert redact_argv(["login", "--token", "--verbose"]) == ["login", "--token", "--verbose"]


@pytest.mark.parametrize(
    ("name", "secret"),
    [("DB_PASS", True), ("x-api-key", True), ("auth-type", False), ("key", False), ("MY_KEY", True), ("KEY", False)],
)
def test_names(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


@pytest.mark.parametrize(
    "piece", ["eyJaaaa-", "--token ", "a b=", "'\"\\", "://a", "-----BEGIN A ", "sk-", "x.token='"]
)
def test_cost_grows_with_the_length_only(piece: str) -> None:
    """An argument of two megabytes may not stop a hold from starting."""
    started = time.monotonic()
    redact_text(piece * (400_000 // len(piece)))
    assert time.monotonic() - started < 5
