"""Limits per minute and in total, shared by workers and attempts, despite crashes."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from functools import partial
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fake_model import MODEL, Direct, FakeModel, draw_faults, list_prompts
from fake_time import FakeTime
from strandline.plan.errors import BudgetSpentError
from strandline_packs.models.asking.answers import (
    Endpoint,
    ModelAnswer,
    Reply,
    RowFault,
    Setback,
    UnansweredRequest,
    Usage,
)
from strandline_packs.models.asking.spending.account import Account, read_spent
from strandline_packs.models.asking.spending.tally import RequestTally
from strandline_packs.models.asking.spending.terms import (
    SpendingTerms,
    SpentTotals,
    TokenPrices,
)
from strandline_packs.models.asking.traffic.asker import Asker, ModelQuestion, Spending
from strandline_packs.models.asking.traffic.health import Terms
from strandline_packs.models.asking.traffic.judging import find_usage
from strandline_packs.models.asking.traffic.pace import RequestPace
from vendor_replies import NO_USAGE, USAGE

TOKENS = USAGE["total_tokens"]
MOST = 4  # concurrent requests of a worker
# Each example creates its own folder.
SAME_FIXTURE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


class Workers:
    """Several workers that call a model with some prompts on a shared account."""

    def __init__(self, folder: Path, model: FakeModel, count: int) -> None:
        self.model, self.count, self.folder = model, count, folder
        self.time = FakeTime()
        self.sent: list[float] = []
        self.used = (0, 0)
        self.found: dict[str, ModelAnswer | RowFault] = {}
        self.ends: list[BudgetSpentError] = []
        self.lines: list[str] = []

    async def post(self, path: str, body: bytes) -> Any:
        self.sent.append(self.time.now)
        await self.time.sleep(0.01 * (1 + len(self.sent) % 3))  # other requests run meanwhile
        reply = await Direct(self.model).post(path, body)
        await self.time.sleep(0.01)
        usage = json.dumps(USAGE).encode()
        if isinstance(reply, Reply) and usage in reply.body:
            self.used = self.used[0] + 7, self.used[1] + 3
        return reply

    def ask(self, prompts: Sequence[str], **terms: Any) -> None:
        """Divide the unanswered prompts among the workers, and request them."""
        left = [prompt for prompt in prompts if prompt not in self.found]

        async def work() -> None:
            parts = [left[worker :: self.count] for worker in range(self.count)]
            await asyncio.gather(*(self._work(part, SpendingTerms(**terms)) for part in parts))

        asyncio.run(work())

    def make_asker(self, terms: SpendingTerms) -> Asker:
        account = Account(
            self.folder / "spent.account", terms, "ask", lambda: self.time.now, SpentTotals
        )
        return Asker(
            self,
            Endpoint.CHAT,
            RequestPace(MOST),
            Terms("ask: the server", 3, 1e6, 0),
            self.time.clock,
            self.lines.append,
            Spending(RequestTally(), account),
        )

    async def _work(self, prompts: list[str], terms: SpendingTerms) -> None:
        asker = self.make_asker(terms)

        def keep(position: int, outcome: ModelAnswer | RowFault) -> None:
            self.found[prompts[position]] = outcome

        bodies = [{"model": MODEL, "messages": [{"role": "u", "content": p}]} for p in prompts]
        works = [partial(asker.ask, ModelQuestion(body)) for body in bodies]
        try:
            await asker.work_all(works, MOST, keep, lambda: None)
        except BudgetSpentError as error:
            self.ends.append(error)


@SAME_FIXTURE
@given(st.integers(0, 1000), st.integers(1, 4), st.integers(0, 60))
def test_the_budget_limits_the_number_of_requests(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int, budget: int
) -> None:
    model = FakeModel(choose=draw_faults(seed, 0.2))
    workers, prompts = Workers(tmp_path_factory.mktemp("a"), model, count), list_prompts(40)
    workers.ask(prompts, requests=budget)
    assert model.asked.total() <= budget
    is_over = len(workers.found) == len(prompts)
    assert is_over != bool(workers.ends)
    # Answered requests are kept, and not repeated when the budget grows.
    assert set(model.answered) - {"."} == {
        prompt for prompt, each in workers.found.items() if isinstance(each, ModelAnswer)
    }
    workers.ask(prompts, requests=budget + 10_000)
    assert len(workers.found) == len(prompts)
    assert max(Counter(p for p in model.answered if p != ".").values(), default=1) == 1
    spent = read_spent(workers.folder) or SpentTotals()
    assert spent.requests == model.asked.total()
    # A lost connection may have consumed an answer.
    assert (spent[1:3] == workers.used) == (not spent.estimated)
    assert all(number >= used for number, used in zip(spent[1:3], workers.used, strict=True))


@SAME_FIXTURE
@given(st.integers(1, 4), st.integers(1, 300), st.booleans())
def test_tokens_and_cost_exceed_the_budget_only_by_requests_in_flight(
    tmp_path_factory: pytest.TempPathFactory, count: int, budget: int, by_cost: bool
) -> None:
    model = FakeModel()
    workers = Workers(tmp_path_factory.mktemp("a"), model, count)
    # A prompt token costs 1 and an answer token 2, so a request costs 13.
    prices = TokenPrices(1e6, 2e6)
    terms = {"cost": budget, "prices": prices} if by_cost else {"tokens": budget}
    workers.ask(list_prompts(60), **terms)
    each = 13 if by_cost else TOKENS
    assert model.asked.total() * each < budget + (count * MOST + 1) * each
    assert workers.ends or len(workers.found) == 60


@SAME_FIXTURE
@given(st.integers(1, 4), st.sampled_from([6.0, 30.0, 90.0]))
def test_no_minute_exceeds_its_limit_of_requests(
    tmp_path_factory: pytest.TempPathFactory, count: int, rate: float
) -> None:
    workers = Workers(tmp_path_factory.mktemp("a"), FakeModel(), count)
    prompts = list_prompts(100)
    workers.ask(prompts, requests_per_minute=rate)
    assert len(workers.found) == len(prompts)
    for begun in workers.sent:
        assert sum(begun <= time < begun + 59.9 for time in workers.sent) <= rate
    # The rate is also not slower than necessary.
    assert workers.time.now <= 1.05 * 60 * len(prompts) / rate


@SAME_FIXTURE
@given(st.integers(1, 4), st.sampled_from([100.0, 600.0]))
def test_tokens_keep_to_their_rate(
    tmp_path_factory: pytest.TempPathFactory, count: int, rate: float
) -> None:
    workers = Workers(tmp_path_factory.mktemp("a"), FakeModel(), count)
    workers.ask(list_prompts(100), tokens_per_minute=rate)
    assert len(workers.found) == 100
    in_flight = count * MOST * TOKENS
    for begun in workers.sent:
        within = sum(begun <= time < begun + 59.9 for time in workers.sent)
        assert within * TOKENS <= rate + in_flight


def test_the_message_names_the_budget_and_how_to_resume(tmp_path: Path) -> None:
    workers = Workers(tmp_path, FakeModel(), 1)
    workers.ask(list_prompts(9), requests=5)
    assert str(workers.ends[0]) == (
        "ask: its budget is spent (5 of 5 requests); raise `budget` to continue"
    )
    workers.ends.clear()
    workers.ask(list_prompts(9), cost=0.0004, prices=TokenPrices(1.0, 1.0))
    assert not workers.ends  # 90 tokens at a millionth each
    workers.ask(list_prompts(99), cost=0.0004, prices=TokenPrices(1.0, 1.0))
    assert "tokens)" in str(workers.ends[0])


def test_a_lost_account_starts_with_the_logged_requests(tmp_path: Path) -> None:
    def open_account() -> Account:
        return Account(
            tmp_path / "spent.account",
            SpendingTerms(requests=12),
            "ask",
            lambda: 0.0,
            lambda: SpentTotals(10, 70, 30),
        )

    open_account().take(100)
    assert read_spent(tmp_path) == SpentTotals(11, 70, 30)
    (tmp_path / "spent.account").write_bytes(b"\0" * 48)
    assert read_spent(tmp_path) is None
    open_account().take(100)
    open_account().take(100)
    with pytest.raises(BudgetSpentError, match="12 of 12 requests"):
        open_account().take(100)


@pytest.mark.parametrize("back", [1.0, 59.0, 61.0, 600.0, 4000.0, 1e6])
@pytest.mark.parametrize("rate", [{"requests_per_minute": 2}, {"tokens_per_minute": 200}])
def test_a_rate_survives_a_clock_that_was_set_back(
    tmp_path: Path, back: float, rate: dict[str, float]
) -> None:
    clock, terms = [1e9], SpendingTerms(**rate)  # type: ignore[arg-type]
    passed, sent = 0.0, list[float]()
    account = Account(tmp_path / "spent.account", terms, "ask", lambda: clock[0], SpentTotals)
    while len(sent) < 12:
        grant = account.take(400)
        if grant.wait:
            passed, clock[0] = passed + grant.wait, clock[0] + grant.wait
            continue
        sent.append(passed)
        account.settle(grant, Usage(60, 40))
        if len(sent) in (4, 5, 9):
            clock[0] -= back
    gaps = [after - before for before, after in pairwise(sent)]
    assert min(gaps[1:]) >= 29.9
    assert max(gaps) <= 30.1 + 60  # clocks of nodes may differ a little


def test_a_long_request_waits_as_long_as_its_tokens_need(tmp_path: Path) -> None:
    now, terms = [1e9], SpendingTerms(tokens_per_minute=10)
    account = Account(tmp_path / "spent.account", terms, "ask", lambda: now[0], SpentTotals)
    account.settle(account.take(4), Usage(1000, 1000))
    passed = 0.0
    while wait := account.take(4).wait:
        now[0], passed = now[0] + wait, passed + wait
    assert passed == pytest.approx(12_000)


def test_an_account_of_the_previous_layout_is_continued(tmp_path: Path) -> None:
    content = Struct(">QQQdd").pack(11, 70, 30, 0.0, 0.0)
    (tmp_path / "spent.account").write_bytes(content + blake2b(content, digest_size=8).digest())
    terms = SpendingTerms(requests=12)
    account = Account(tmp_path / "spent.account", terms, "ask", lambda: 1e9, SpentTotals)
    assert read_spent(tmp_path) == SpentTotals(11, 70, 30)
    account.settle(account.take(100), Usage(7, 3))
    assert read_spent(tmp_path) == SpentTotals(12, 77, 33)
    with pytest.raises(BudgetSpentError, match="12 of 12 requests"):
        account.take(100)


@pytest.mark.parametrize("usage", NO_USAGE.values(), ids=NO_USAGE)
@pytest.mark.parametrize("by_cost", [False, True])
def test_unreported_tokens_are_estimated_and_marked_as_estimates(
    tmp_path: Path, usage: object, by_cost: bool
) -> None:
    model = FakeModel(usage=usage, answer=lambda _: "word " * 200)
    workers = Workers(tmp_path, model, 1)
    bounds = {"cost": 0.005} if by_cost else {"tokens": 5000}
    workers.ask(list_prompts(99), prices=TokenPrices(1.0, 1.0), **bounds)
    (end,) = workers.ends
    assert "estimated for " in str(end)
    assert 10 <= model.asked.total() <= 25  # about 300 tokens each
    assert len(workers.lines) == 1
    assert "did not report the tokens" in workers.lines[0]


def test_lost_connections_count_in_a_budget(tmp_path: Path) -> None:
    model = FakeModel(choose=lambda _, time: "half" if time < 3 else None)
    workers = Workers(tmp_path, model, 1)
    workers.ask(list_prompts(20), tokens=10_000)
    spent = read_spent(tmp_path)
    assert spent is not None
    assert spent.estimated == 40
    assert spent.tokens >= 20 * TOKENS + 40 * TOKENS


def test_a_picture_has_fewer_tokens_than_bytes() -> None:
    url = "data:image/png;base64," + "A" * 100_000
    content = json.dumps({"messages": [{"content": [{"image_url": {"url": url}}]}]}).encode()
    lost, unsent = (
        UnansweredRequest("it was lost"),
        UnansweredRequest("no connection", was_sent=False),
    )
    assert find_usage(lost, Setback(lost.what), content, 0, Endpoint.CHAT).prompt < 100
    assert find_usage(unsent, Setback(unsent.what), content, 50, Endpoint.CHAT) == Usage()


def test_costs_and_times_are_counted_as_sums() -> None:
    tally = RequestTally(TokenPrices(1e6, 1e6))
    for seconds in (0.05, 0.05, 3.0, 1000.0):
        tally.begin()
        tally.note_usage(Usage(2, 1))
        tally.note_answer(seconds)
    assert tally.take() == {
        "requests": 4,
        "spent: prompt tokens": 8,
        "spent: completion tokens": 4,
        "spent: cost, in millionths": 12_000_000,
        "answered within   0.1 s": 2,
        "answered within     5 s": 1,
        "answered over 500 s": 1,
    }
    assert not tally.take().total()


def test_an_account_is_at_rest_only_without_requests_in_flight(tmp_path: Path) -> None:
    def open_account() -> Account:
        path = tmp_path / "spent.account"
        return Account(path, SpendingTerms(requests=1), "ask", lambda: 0.0, SpentTotals)

    one, other = open_account(), open_account()
    assert one.is_at_rest()
    with one.working(), other.working():
        assert not open_account().is_at_rest()
    assert one.is_at_rest()


def test_no_request_starts_after_the_budget_is_spent(tmp_path: Path) -> None:
    """Requests in flight finish, and their answers are kept."""
    begun, kept, last = list[int](), list[int](), 5

    async def work(number: int) -> int:
        begun.append(number)
        await asyncio.sleep(0)
        if number == last:
            raise BudgetSpentError("no more")
        return number

    works: Any = [partial(work, number) for number in range(20)]
    asker = Workers(tmp_path, FakeModel(), 1).make_asker(SpendingTerms())
    with pytest.raises(BudgetSpentError):
        asyncio.run(
            asker.work_all(works, MOST, lambda _, outcome: kept.append(outcome), lambda: None)
        )
    assert len(begun) < last + 1 + MOST
    assert sorted(kept) == [number for number in begun if number != last]
