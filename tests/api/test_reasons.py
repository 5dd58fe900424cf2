"""Each reason that alerts compare has an explanation in sentences and a single meaning."""

import re

import pytest

from strandline_api.outcome.causes import Cause, Treatment
from strandline_api.outcome.disruptions import Disruption
from strandline_api.status.enums import AttemptPhase, PipelinePhase, Trigger
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.reasons import ConditionType, Reason

# Words to avoid, because newcomers would have to read them twice.
DIALECT = re.compile(
    r"\b(goes? on|went on|began|begun|anew|mend|somebody|nobody|whose|of which|asked for|asks for"
    r"|tells?|told|by word of|held back|left alone|on its way|mostly)\b",
    re.IGNORECASE,
)
CAMEL = re.compile(r"([A-Z][a-z]*)+")
WORDS = [*Cause, *Reason, *ConditionType, *EventReason, *AttemptPhase, *PipelinePhase, *Trigger]


@pytest.mark.parametrize("word", sorted({word.value for word in WORDS}))
def test_reasons_are_valid_in_kubernetes(word: str) -> None:
    assert CAMEL.fullmatch(word)
    assert len(word) <= 64


@pytest.mark.parametrize("explained", [*Cause, *Reason])
def test_a_cause_or_reason_has_a_meaning_and_advice(explained: Cause | Reason) -> None:
    for text in (explained.meaning, explained.advice):
        assert text == "" or (text[0].isupper() or text[0] == "`")
        assert text == "" or text.endswith(".")
        assert text.count("`") % 2 == 0
        assert len(text) < 250
    assert explained.meaning


@pytest.mark.parametrize(
    "explained", [*Cause, *Reason, *ConditionType, *EventReason, *Disruption], ids=str
)
def test_explanations_are_in_plain_words(
    explained: Cause | Reason | ConditionType | EventReason | Disruption,
) -> None:
    texts = [getattr(explained, name, "") for name in ("meaning", "sentence", "marks", "advice")]
    assert [text for text in texts if DIALECT.search(text)] == []


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_has_advice(cause: Cause) -> None:
    assert cause.advice
    if cause.treatment is Treatment.NEVER:
        assert not cause.advice.startswith("Nothing:")


@pytest.mark.parametrize("explained", [*ConditionType, *EventReason])
def test_conditions_and_events_are_explained(explained: ConditionType | EventReason) -> None:
    assert explained.meaning.endswith(".")


def test_reasons_and_causes_have_different_names() -> None:
    assert {word.value for word in Reason}.isdisjoint({word.value for word in Cause})


def test_phases_of_an_attempt_are_reasons_too() -> None:
    ends = {AttemptPhase.SUCCEEDED, AttemptPhase.FAILED}
    assert {phase.value for phase in AttemptPhase if phase not in ends} <= {*map(str, Reason)}


def test_blocking_reasons_have_advice() -> None:
    blocked = [reason for reason in Reason if reason.meaning.startswith(("No ", "There is no"))]
    assert blocked
    assert all(reason.advice for reason in blocked)
