"""The stage `redact-pii`: personal addresses and numbers in prose, replaced by what they were.

Redacting twice changes nothing.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from strandline.plan.registry import register
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.stages.addresses import ACCOUNT, CARD, EMAIL, IPV4, IPV6, PHONE, Kind, redact
from strandline.stages.columns import map_strings


class Personal(StrEnum):
    """A kind of personal data."""

    EMAIL = "email"
    IBAN = "iban"
    CARD = "card"
    IP = "ip"
    PHONE = "phone"


_KINDS: dict[Personal, tuple[Kind, ...]] = {
    Personal.EMAIL: (EMAIL,),
    Personal.IBAN: (ACCOUNT,),
    Personal.CARD: (CARD,),
    Personal.IP: (IPV4, IPV6),
    Personal.PHONE: (PHONE,),
}


@register("redact-pii")
class RedactPii(Stage):
    """Replaces e-mail addresses, phone, card and account numbers and public IPs by their kind."""

    class Params(Stage.Params):
        """Where to look, and for what."""

        columns: tuple[str, ...] = Field(
            default=("text",), min_length=1, description="Columns of text to redact."
        )
        kinds: tuple[Personal, ...] = Field(
            default=tuple(Personal),
            min_length=1,
            description="`email`; `iban` and `card` with right check digits; `ip`, public only; "
            "`phone`.",
        )

    params: Params

    def setup(self) -> None:
        """Choose the rules; the surest come first whatever the order in `kinds`."""
        chosen = [kind for kind in Personal if kind in self.params.kinds]
        self._kinds = tuple(rule for kind in chosen for rule in _KINDS[kind])

    def process(self, task: Task) -> Task:
        """Redact the columns; rows are neither added nor dropped."""
        table = task.table
        for name in self.params.columns:
            table = map_strings(table, name, self._redact)
        return task.replace(table)

    def _redact(self, text: str) -> str:
        return redact(text, self._kinds, self._count)

    def _count(self, name: str) -> None:
        self.count(f"redacted: {name}")
