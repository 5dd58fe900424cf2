"""Secrets are removed from texts, and all other text stays readable."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_api.texts import _SECRETS_OF_LOGS, SECRET, fitting, is_unicode, repair, scrub

# Split, so that secret scanners do not report these strings.
AWS_KEY: Final = "AKIA" + "IOSFODNN7EXAMPLE"
AWS_SECRET: Final = "wJalrXUtnFEMI" + "/K7MDENG/bPxRfiCYEXAMPLEKEY"
GITHUB: Final = "gh" + "p_" + "a1B2" * 9
BEGIN, END = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
BODY = "\n".join(["MIIEpAIBAAKCAQEA0123456789abcdefABCDEF"] * 3)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"can't sign with {AWS_KEY}", f"can't sign with {SECRET}"),
        (f"aws_secret_access_key = {AWS_SECRET}", f"aws_secret_access_key = {SECRET}"),
        (f"AWS_SECRET_ACCESS_KEY={AWS_SECRET}", f"AWS_SECRET_ACCESS_KEY={SECRET}"),
        (f"cloning https://{GITHUB}@github.com/a/b", f"cloning https://{SECRET}@github.com/a/b"),
        ("redis://:hunter2@cache:6379/0", f"redis://:{SECRET}@cache:6379/0"),
        ("s3://jo:p%40ss@host/x not found", f"s3://jo:{SECRET}@host/x not found"),
        ("Authorization: Bearer abc.def-123", f"Authorization: Bearer {SECRET}"),
        ("{'authorization': 'Basic dXNlcjpwYXNz'}", f"{{'authorization': 'Basic {SECRET}'}}"),
        ("X-Api-Key: 0123456789", f"X-Api-Key: {SECRET}"),
        ("sent bearer 0a1b2c3d4e5f", f"sent bearer {SECRET}"),
        ("login failed, password=hunter", f"login failed, password={SECRET}"),
        ('{\\"password\\": \\"pa55word\\"}', f'{{\\"password\\": \\"{SECRET}\\"}}'),
        ("token: 8f14e45fceea167a", f"token: {SECRET}"),
        ("GET /x?X-Amz-Signature=0badc0de&n=1", f"GET /x?X-Amz-Signature={SECRET}&n=1"),
        ("AccountKey=Zm9vYmFy==;Endpoint=x", f"AccountKey={SECRET};Endpoint=x"),
        ("GET /x?sv=2024&sig=Zm9vYmFy%3D", f"GET /x?sv=2024&sig={SECRET}"),
        (f"read {BEGIN}\n{BODY}\n{END} from it", f"read {SECRET} from it"),
        (f"{BODY}\n{END}\nlast", f"{SECRET}\nlast"),
    ],
)
def test_likely_secrets_are_removed(text: str, kept: str) -> None:
    assert scrub(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "Job entrypoint command failed with exit code 1",
        'pod corpus-3-head-x2x4z: MountVolume.SetUp failed: secret "registry" not found',
        "couldn't find key password in Secret team/store",
        "spec.ray.imagePullSecrets[0].name: must be text, not 7",
        "password authentication failed for user jo",
        "the token is expired, bearer authentication is needed",
        "Basic checks passed",
        "    token = read_token(path, 2)",
        "invalid max_tokens: 4096",
        "image registry.example.org/runtime@sha256:0123456789abcdef0123456789abcdef",
        "fingerprint d41d8cd98f00b204e9800998ecf8427e does not match",
        "https://example.com:8443/x@y answered 403",
        "jo@example.com at 10.0.0.7",
    ],
)
def test_useful_text_is_kept(text: str) -> None:
    assert scrub(text) == text


PIECES = st.sampled_from(
    [AWS_KEY, GITHUB, "password", "token", "sig", "Authorization", "Bearer ", "=", ": ", " = ", "'",
     '"', "\\", "://", "u:", "@", "hunter22", BEGIN, END, BODY, "\n", " ", SECRET, "x", "&"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=60))
def test_law_scrubbing_twice_changes_nothing(text: str) -> None:
    assert scrub(scrub(text)) == scrub(text)


def test_every_secret_rule_has_prefilter_hints() -> None:
    assert all(kind.hints for kind in _SECRETS_OF_LOGS)


def test_a_secret_is_not_cut_before_it_is_found() -> None:
    text = f"{'x' * 90} {AWS_KEY}"
    assert fitting(100)(text) == f"{'x' * 90} {SECRET}"
    assert fitting(100)(7) == 7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"a {BEGIN} x 1 {END} b", f"a {SECRET} b"),
        (f"{BEGIN} x {BEGIN} y {END} z {END}", f"{SECRET} z {END}"),
        (f"{BEGIN} 1 < 2 {END}", f"{SECRET} 1 < 2 {END}"),
        (f"{BEGIN}{'1 ' * 11_000}{END}", f"{SECRET}{'1 ' * 11_000}{END}"),
        (f"{BEGIN}\n{'A' * 64}\n{'B' * 64} rest", f"{SECRET} rest"),
        (f"{END} x {BEGIN} y {END}", f"{END} x {SECRET}"),
    ],
)
def test_a_key_is_removed_up_to_a_near_end(text: str, expected: str) -> None:
    assert scrub(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "password" * 8_000,
        "password: " * 6_000,
        "://" * 20_000,
        "://a:" * 12_000,
        f"{BEGIN} " * 2_000,
        f"{BEGIN}1 2 3" * 2_000 + END,
        f"{BEGIN}\n" + "1 2\n" * 16_000 + END,
        ("A" * 17 + "\n") * 3_600 + "PRIVATE KEY",
        "Bearer " * 9_000,
        "x-auth" * 10_000,
    ],
)
def test_long_partial_matches_are_fast(text: str) -> None:
    assert len(scrub(text)) <= len(text) + len(SECRET) * text.count(" ")


@given(st.text(st.characters(codec=None)))
def test_law_a_text_is_unicode_if_repair_changes_nothing(text: str) -> None:
    assert is_unicode(text) == (repair(text) == text)
    assert is_unicode(repair(text))


def test_an_unpaired_surrogate_is_not_unicode() -> None:
    assert not is_unicode("caf\udce9")
    assert is_unicode("café")
