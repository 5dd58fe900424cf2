"""Repaired text, and addresses replaced as in FineWeb."""

from __future__ import annotations

from typing import Any

import pytest

from stage_runs import StageRun
from strandline.plan.stages.registry import find_stage
from strandline_api.documents.problems import SpecError


@pytest.mark.parametrize(
    ("values", "broken", "repaired"),
    [
        ({}, "schÃ¶n", "schön"),
        ({}, "l’avenir â€œneufâ€\x9d", "l’avenir “neuf”"),
        ({"encoding": False}, "schÃ¶n", "schÃ¶n"),
        ({}, "fish &amp; chips", "fish & chips"),
        ({}, "<b>fish &amp; chips", "<b>fish &amp; chips"),
        ({"entities": "always"}, "<b>fish &amp; chips", "<b>fish & chips"),
        ({"entities": "never"}, "fish &amp; chips", "fish &amp; chips"),
        ({}, "red\x1b[31m and \x07bell", "red and bell"),
        ({"controlCharacters": False}, "\x07bell", "\x07bell"),
        ({}, "ﬁsh “quoted” ＬＯＵＤ a\r\nb", "ﬁsh “quoted” ＬＯＵＤ a\r\nb"),
        (
            {"ligatures": True, "quotes": True, "width": True, "lineBreaks": True},
            "ﬁsh “quoted” ＬＯＵＤ a\r\nb",
            'fish "quoted" LOUD a\nb',
        ),
    ],
)
def test_text_is_repaired_as_the_parameters_say(
    values: dict[str, Any], broken: str, repaired: str
) -> None:
    stage = StageRun("repair-text", **values)
    assert [repaired] == stage.column("text", [broken])
    assert ({} if broken == repaired else {"repaired": 1}) == stage.counters
    assert [repaired] == stage.column("text", [repaired])


def test_a_text_that_becomes_empty_is_dropped() -> None:
    stage = StageRun("repair-text")
    assert ["a"] == stage.column("text", ["\x00\x01", "a"])
    assert {"repaired": 1, "dropped: empty": 1} == stage.counters


FINEWEB = {
    "kinds": ["email", "ip"],
    "replacements": {
        "email": ["email@example.com", "firstname.lastname@example.org"],
        "ip": ["22.214.171.124", "126.96.36.199"],
    },
}


def test_addresses_become_placeholders_that_stay_unchanged() -> None:
    stage = StageRun("redact-pii", **FINEWEB)
    texts = [f"write to keeper{number}@lighthouse.net or 8.8.4.{number}" for number in range(20)]
    found = stage.column("text", texts)
    emails = {text.split()[2] for text in found}
    assert {"email@example.com", "firstname.lastname@example.org"} == emails
    assert {"22.214.171.124", "126.96.36.199"} == {text.split()[4] for text in found}
    assert {"redacted: email": 20, "redacted: ip": 20} == stage.counters
    assert found == stage.column("text", found)
    assert 20 == stage.counters["redacted: email"]
    assert found == StageRun("redact-pii", **FINEWEB).column("text", texts)


def test_private_addresses_are_redacted_on_request() -> None:
    texts = ["192.168.0.7 and 10.0.0.1 and 999.1.1.1 and ::1 and fe80::1:2"]
    assert texts == StageRun("redact-pii").column("text", texts)
    (found,) = StageRun("redact-pii", privateIps=True).column("text", texts)
    assert found.startswith("<IP> and <IP> and 999.1.1.1 and ")
    assert found.endswith("<IP>")


@pytest.mark.parametrize("replacement", ["éa@b.example", "", "see 8.8.4.4"])
def test_a_replacement_that_would_be_redacted_again_is_refused(replacement: str) -> None:
    with pytest.raises(SpecError, match=r"would be redacted itself|must not be empty"):
        find_stage("redact-pii")(replacements={"email": [replacement]})
