"""The first signal requests a stop, and the second signal ends the process."""

from __future__ import annotations

import signal

import pytest

from strandline.cli.app.signals import SENTENCE, Interruption


def make() -> tuple[Interruption, list[str], list[int]]:
    said: list[str] = []
    left: list[int] = []
    return Interruption(said.append, leave=left.append), said, left


@pytest.mark.parametrize(
    ("signals", "codes"),
    [
        ("I", []),
        ("T", []),
        ("TTT", []),
        ("II", [130]),
        ("TI", [130]),
        ("IT", [143]),
        ("TTI", [130]),
    ],
)
def test_the_first_signal_requests_a_stop_and_the_second_ends_at_once(
    signals: str, codes: list[int]
) -> None:
    """Repeated signals that programs send count as one request."""
    interruption, said, left = make()
    assert not interruption.is_asked()
    for letter in signals:
        interruption.receive({"T": signal.SIGTERM, "I": signal.SIGINT}[letter], None)
        assert interruption.is_asked()
    assert (said, left) == ([SENTENCE], codes)


def test_consequences_of_the_first_request_happen_once_and_silently() -> None:
    followed: list[str] = []
    said: list[str] = []
    interruption = Interruption(said.append, then=lambda: followed.append("then"))
    interruption.ask()
    interruption.ask()
    assert interruption.is_asked()
    assert (["then"], []) == (followed, said)


def test_after_a_request_a_programs_signal_is_the_same_request() -> None:
    interruption, said, left = make()
    interruption.ask()
    interruption.receive(signal.SIGTERM, None)
    assert (said, left) == ([], [])
    interruption.receive(signal.SIGINT, None)
    assert (said, left) == ([], [130])


def test_handlers_are_installed_only_as_long_as_needed() -> None:
    interruption, _, _ = make()
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with interruption.listening():
        signal.raise_signal(signal.SIGTERM)
        assert interruption.is_asked()
    after = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert after == before


def test_a_handler_that_a_library_put_in_place_is_replaced_again() -> None:
    interruption, _, _ = make()
    foreign: list[int] = []
    with interruption.listening():
        signal.signal(signal.SIGTERM, lambda number, _: foreign.append(number))
        interruption.arm()
        signal.raise_signal(signal.SIGTERM)
    assert interruption.is_asked()
    assert foreign == []
