"""Redacted and unredacted text, and idempotence of redaction."""

import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import StageRun
from strandline.data.tables.columns import MissingColumnError
from strandline_api.texts import RedactionRule, redact
from strandline_packs.code.redact_secrets import build_secret_kinds, measure_entropy
from strandline_packs.text.privacy.addresses import (
    ACCOUNT,
    CARD,
    EMAIL,
    IPV4,
    IPV6,
    PHONE,
    is_account_number,
    is_card_number,
)

SECRETS = (*build_secret_kinds(32, 4.3), EMAIL, IPV4, IPV6)
PERSONAL = (EMAIL, ACCOUNT, CARD, IPV4, IPV6, PHONE)

RANDOM = base64.b64encode(random.Random(7).randbytes(30)).decode()
TOKEN = "gh" + "p_" + "a1B2" * 9
PIECES = st.sampled_from(
    ["a@b.example.com", "8.8.8.8", "[", "]", "jo@10.0.0.1", "jo@[::1]",
     "2a00:1450:4001::8a", "4111 1111 1111 1111", "://u:pw1@h", TOKEN,
     "GB82 WEST 1234 5698 7654 32", "+49 30 5550 1234", "555-555-0199", "password = 'hunter22'",
     f"'{RANDOM}'", "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----", "AKIA",
     "<SECRET>", "<EMAIL>", "1", "@", ".", ":", " ", "'", "a", "-", "\n", "é"]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=40)


def ignore(_name: str) -> None:
    """Count nothing."""


@pytest.mark.parametrize("kinds", [SECRETS, PERSONAL])
@given(text=TEXTS)
def test_redaction_is_idempotent(kinds: tuple[RedactionRule, ...], text: str) -> None:
    once = redact(text, kinds, ignore)
    assert once == redact(once, kinds, ignore)


@given(TEXTS)
def test_nothing_is_counted_where_nothing_changes(text: str) -> None:
    counted: list[str] = []
    changed = redact(text, PERSONAL, counted.append)
    assert bool(counted) == (changed != text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mail jo.b+x@mail.example.com.", "mail <EMAIL>."),
        ("to first.last@123.123.123.123.", "to <EMAIL>."),
        ("<jo@10.0.0.7>, jo@192.168.1.1:25", "<<EMAIL>>, <EMAIL>:25"),
        ("jo+x@[123.123.123.123], jo@[127.0.0.1]", "<EMAIL>, <EMAIL>"),
        (
            "jo@[IPv6:2001:db8::1] jo@[2a00:1450::8a] jo@[ipv6:::ffff:8.8.8.8]",
            " ".join(["<EMAIL>"] * 3),
        ),
        ("pkg@1.2.3, a@1.2.3.4.5, x@999.1.1.1, a@[b], list@[1]", None),
        ("@decorator.name and a @ b.c", None),
        ("key = AKIA" + "ABCDEFGHIJKLMNOP", "key = <SECRET>"),
        (f"'{TOKEN}'", "'<SECRET>'"),
        ("s" + "k_live_" + "4eC39HqLyjWDarjtT1", "<SECRET>"),
        ("https://jo:hunter2@example.com/x", "https://jo:<SECRET>@example.com/x"),
        ("https://example.com:80/x@y", None),
        ("password = 'hunter22'", "password = '<SECRET>'"),
        ('API_KEY: "abcd1234efgh"', 'API_KEY: "<SECRET>"'),
        ("password = 'changeme'", None),
        ("password='{password1}'", None),
        (f'x = "{RANDOM}"', 'x = "<SECRET>"'),
        ("x = 'abcdefghijklmnopqrstuvwxyz0123456789'", None),
        ("x = 'd41d8cd98f00b204e9800998ecf8427e'", None),
        ("x = 'a_long_name_of_some_function_with_42_words'", None),
        ("ping 8.8.8.8!", "ping <IP>!"),
        ("127.0.0.1 10.1.2.3 192.168.0.1 0.0.0.0 255.255.255.255", None),
        ("version 1.2.3.4.5 and 1.2.3 and 999.1.1.1", None),
        ("at 2a00:1450:4001:81b::200e now", "at <IP> now"),
        ("a[::2], 12:30:45, aa:bb:cc:dd:ee:ff, ::1, fe80::1:2:3", None),
    ],
)
def test_secrets(text: str, expected: str | None) -> None:
    assert (text if expected is None else expected) == redact(text, SECRETS, ignore)


def test_a_private_key_is_redacted_with_its_body() -> None:
    body = "\n".join(["MIIEpAIBAAKCAQEA0123456789"] * 3)
    begin, end = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
    assert "a <SECRET> b" == redact(f"a {begin}\n{body}\n{end} b", SECRETS, ignore)
    assert "a <SECRET> b" == redact(f"a {begin}\n{body} b", SECRETS, ignore)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("call (555) 555-0142 now", "call <PHONE> now"),
        ("call 555-555-0199.", "call <PHONE>."),
        ("+49 30 5550 1234", "<PHONE>"),
        ("+33 1 55 50 12 34,", "<PHONE>,"),
        ("030 5550 1234", "<PHONE>"),
        ("on 2024-01-15 or 15.01.2024", None),
        ("ISBN 978-3-16-148410-0", None),
        ("from 1990 to 2020, 10 000 000 people", None),
        ("card 4111-1111-1111-1111 ok", "card <CARD> ok"),
        ("card 4111-1111-1111-1112 no", None),
        ("0000 0000 0000 0000", None),
        ("555-555-0199 4111 1111 1111 1111", "<PHONE> <CARD>"),
        ("pay GB82 WEST 1234 5698 7654 32 now", "pay <IBAN> now"),
        ("pay DE89370400440532013000", "pay <IBAN>"),
        ("pay GB83 WEST 1234 5698 7654 32 now", None),
        ("jo@example.com and 8.8.4.4", "<EMAIL> and <IP>"),
    ],
)
def test_personal_data(text: str, expected: str | None) -> None:
    assert (text if expected is None else expected) == redact(text, PERSONAL, ignore)


def test_check_digits() -> None:
    assert is_card_number("4111 1111 1111 1111")
    assert not is_card_number("4111 1111 1111 1113")
    assert is_account_number("GB82WEST12345698765432")
    assert not is_account_number("GB82WEST12345698765431")


def test_entropy() -> None:
    assert 0 == measure_entropy("")
    assert 0 == measure_entropy("aaaa")
    assert 2 == measure_entropy("abcd")


@pytest.mark.parametrize(
    "text",
    [
        "@" * 50_000,
        "a." * 20_000,
        "1" * 50_000,
        "a@" + "b-" * 20_000,
        "+1" * 20_000,
        ":" * 50_000,
        "'" * 50_000,
        "0a:" * 20_000,
    ],
)
def test_long_runs_of_partial_matches_are_not_redacted(text: str) -> None:
    assert text == redact(text, (*SECRETS, *PERSONAL), ignore)


def test_the_code_stage_redacts_every_column_and_counts(run: type[StageRun]) -> None:
    stage = run("redact-secrets")
    row = {"signature": "def f(a='x@example.com')", "docstring": None, "source": "y = '8.8.8.8'",
           "decorators": ["at('x@example.com')"], "n": 3}  # fmt: skip
    (answer,) = stage.rows([row])
    assert {"signature": "def f(a='<EMAIL>')", "docstring": None, "source": "y = '<IP>'",
            "decorators": ["at('<EMAIL>')"], "n": 3} == answer  # fmt: skip
    assert {"redacted: email": 2, "redacted: ip": 1} == stage.counters


def test_the_code_stage_leaves_addresses_on_request(run: type[StageRun]) -> None:
    stage = run("redact-secrets", columns=["source"], emails=False, ips=False)
    text = "'x@example.com 8.8.8.8'"
    assert [text] == stage.column("source", [text])


def test_the_text_stage_redacts_the_chosen_kinds(run: type[StageRun]) -> None:
    text = "jo@example.com 555-555-0199"
    assert ["<EMAIL> <PHONE>"] == run("redact-pii").column("text", [text])
    assert ["jo@example.com <PHONE>"] == run("redact-pii", kinds=["phone"]).column("text", [text])
    with pytest.raises(MissingColumnError, match="no column 'text'; the columns are: n"):
        run("redact-pii").rows([{"n": 1}])
    with pytest.raises(ValueError, match="'email', 'iban'"):
        run("redact-pii", kinds=["name"])
