"""Secrets leave a command line before it is stored: in tickets, records, events and the audit.

By shape (a GitHub token looks like one wherever it stands) and by name (``--password x``, ``API_KEY=… cmd``,
``Authorization: …``). Doubt counts as a secret, except where a name is known to hold none (``--max-tokens``,
``--token-file``), so that a process tree can still be read.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Iterator, Sequence

#: Stands for a secret; a shell word that needs no quotes.
REDACTED = "REDACTED"

_SHAPES = re.compile(
    r"""(?<![A-Za-z0-9])(?:
        gh[oprsu]_\w{6,} | github_pat_\w{6,} | glpat-[\w-]{6,}      # GitHub, GitLab
      | sk-[\w-]{12,} | hf_\w{6,} | AIza[\w-]{20,}                  # model services
      | (?:AKIA|ASIA)[0-9A-Z]{12,} | xox[a-z]-[\w-]{6,} | xapp-[\w-]{6,} | npm_\w{20,} | pypi-[\w-]{20,}
      | (?<![\w-])eyJ[\w-]{4,}+\.[\w-]++(?:\.[\w-]*+)+               # JWT: {"… in base64
    )""",
    re.VERBOSE | re.ASCII,
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_BEARER = re.compile(r"(?i)\b(bearer\s+)[^\s'\"]+")
#: As somebody writes it in a sentence.
_TOLD = re.compile(r"(?i)\b(pass(?:word|wd|phrase)\s++(?:(?:is|was)\s++)?)(?![-=:'\"])[^\s'\"]+")
_USERINFO = re.compile(r"://([^\s/?#'\"@:]*)(:[^\s/?#'\"]*)?@")
#: A user part of this many characters is taken for a token.
_LONG_USER = 16

_NAME = re.compile(r"[\w.-]+", re.ASCII)
_ASSIGNED = re.compile(r"[\"']?\s*[:=]\s*")
#: Between an option and its value; what follows is no option itself.
_BLANK = re.compile(r"\s++(?!--)")
#: One word of a shell: pieces with and without quotes, up to a blank or an operator. A quote may be unclosed.
_WORD = re.compile(r"(?:\"(?:[^\"\\]|\\.)*\"?|'[^']*'?|\\.|[^\s'\";&|])+", re.DOTALL)
_HEADER_VALUE = re.compile(r"[^'\"\r\n]+")
_WHOLE = re.compile(r"([\w.-]+)([:=]\s*)(.+)", re.DOTALL | re.ASCII)

_HEADERS = {"authorization", "cookie"}
_ENDINGS = ("token", "password", "passwd", "passphrase", "secret", "apikey", "sshpass", *_HEADERS)
_WORDS = {"secrets", "credential", "credentials", "pwd"}
_LAST_WORDS = {"pass", "auth", "pw", "sig", "signature"}
_BEFORE_KEY = {
    "api",
    "access",
    "private",
    "secret",
    "auth",
    "encryption",
    "signing",
    "master",
    "account",
    "session",
}
#: What a name ends with when its value only points to the secret, or counts it.
_HARMLESS_LAST = {"file", "path", "dir", "count", "length", "limit", "type", "name", "url", "env", "size"}
#: What is kept of a command line at most, in characters: more than a ticket stores.
LONGEST_COMMAND = 8192
#: Options whose value is a secret for one program only, or for one verb (``docker login``).
_BY_PROGRAM = {
    "curl": ("-u", "-U", "--user", "--proxy-user"),
    **dict.fromkeys(("sshpass", "login", "mysql", "mysqldump", "mysqladmin", "mariadb"), ("-p",)),
    "redis-cli": ("-a",),
}


def redact_argv(argv: Sequence[str]) -> list[str]:
    """The same arguments, with secrets replaced by ``REDACTED``; as many as before, in the same order."""
    redacted: list[str] = []
    options: tuple[str, ...] = ()
    for before, word in itertools.pairwise(("", *argv)):
        options = options or _BY_PROGRAM.get(os.path.basename(before), ())
        if _is_script(before):
            redacted.append(redact_text(word))
        elif _awaits_secret(before, options) and not word.startswith("--"):
            redacted.append(REDACTED)
        else:
            redacted.append(_attached(word, options) or redact_text(word))
    return redacted


def redact_command(argv: Sequence[str]) -> str:
    """The command as one shell-quoted line without its secrets; of a very long one the beginning."""
    room = LONGEST_COMMAND
    words: list[str] = []
    for word in argv:
        if len(word) > room:
            words.append(word[:room])
            break
        words.append(word)
        room -= len(word) + 1
    return shlex.join(redact_argv(words))


def redact_text(text: str) -> str:
    """A text (a shell script, a header, a reason) without its secrets."""
    text = _PRIVATE_KEY.sub(REDACTED, text)
    text = _SHAPES.sub(REDACTED, text)
    text = _USERINFO.sub(_without_password, text)
    text = _BEARER.sub(rf"\g<1>{REDACTED}", text)
    text = _TOLD.sub(rf"\g<1>{REDACTED}", text)
    return "".join(_without_named(text))


def is_secret_name(name: str) -> bool:
    """Whether what is assigned to a variable, option, header or key of that name is taken for a secret."""
    if name in ("PWD", "OLDPWD"):
        return False
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name)
    words = [word for word in re.split(r"[-_.]+", spaced.lower()) if word]
    if not words or words[-1] in _HARMLESS_LAST or words[0] == "no":
        return False
    return (
        any(word.endswith(_ENDINGS) or word in _WORDS for word in words)
        or words[-1] in _LAST_WORDS
        or any(one in _BEFORE_KEY and other == "key" for one, other in itertools.pairwise(words))
        or (len(words) > 1 and words[-1] == "key" and name.isupper())  # OPENAI_KEY
    )


def _is_script(before: str) -> bool:
    """``sh -c``, ``bash -lc``: the next argument is a script, of many words."""
    return re.fullmatch(r"-[a-z]*c", before) is not None


def _awaits_secret(before: str, options: Sequence[str]) -> bool:
    """``before`` is an option whose value is the next argument."""
    return (before.startswith("-") and "=" not in before and is_secret_name(before)) or before in options


def _options(words: Sequence[str]) -> tuple[str, ...]:
    return next((_BY_PROGRAM[name] for word in words if (name := os.path.basename(word)) in _BY_PROGRAM), ())


def _attached(word: str, options: Sequence[str]) -> str | None:
    """``NAME=value``, ``--name=value``, ``Name: value``, ``-uvalue`` as one argument: all of it goes."""
    if (form := _WHOLE.fullmatch(word)) and is_secret_name(form[1]):
        return form[1] + form[2] + REDACTED
    for option in options:
        start = option + "=" if option.startswith("--") else option
        if word.startswith(start) and word != start and not word.startswith("--" + start):
            return start + REDACTED
    return None


def _without_password(found: re.Match[str]) -> str:
    user, password = found[1], found[2]
    if len(user) >= _LONG_USER:
        user = REDACTED
    return f"://{user}{':' + REDACTED if password else ''}@"


def _without_named(text: str) -> Iterator[str]:
    """The pieces of ``text``, each value that follows a secret's name replaced."""
    program_options = _options(text.split())
    done = 0
    for name in _NAME.finditer(text):
        if name.start() < done:
            continue  # inside a value that is gone already
        secret = is_secret_name(name[0])
        if not secret and name[0] not in program_options:
            continue
        if value := _value_after(text, name[0], name.end()):
            yield text[done : value.start()]
            yield REDACTED
            done = value.end()
    yield text[done:]


def _value_after(text: str, name: str, end: int) -> re.Match[str] | None:
    if assigned := _ASSIGNED.match(text, end):
        header = name.lower().endswith(tuple(_HEADERS))
        return (_HEADER_VALUE if header else _WORD).match(text, assigned.end())
    blank = _BLANK.match(text, end) if name.startswith("-") else None
    return _WORD.match(text, blank.end()) if blank else None
