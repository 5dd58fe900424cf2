"""The stage `redact-secrets`: credentials and addresses in code, replaced by what they were.

Redacting twice changes nothing.
"""

from __future__ import annotations

from pydantic import Field

from strandline.plan.registry import register
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.stages.addresses import EMAIL, IPV4, IPV6, Kind, redact
from strandline.stages.columns import map_strings
from strandline.stages.secret_kinds import build_secret_kinds


@register("redact-secrets")
class RedactSecrets(Stage):
    """Replaces keys, tokens, passwords by `<SECRET>`, e-mail by `<EMAIL>`, public IPs by `<IP>`."""

    class Params(Stage.Params):
        """Where to look, and for what."""

        columns: tuple[str, ...] = Field(
            default=("signature", "docstring", "source", "decorators"),
            min_length=1,
            description="Columns of text, or of lists of text, to redact.",
        )
        emails: bool = Field(default=True, description="Redact e-mail addresses.")
        ips: bool = Field(default=True, description="Redact public IPv4 and IPv6 addresses.")
        min_length: int = Field(
            default=32, ge=16, le=512, description="Shortest quoted string judged by its entropy."
        )
        min_entropy: float = Field(
            default=4.3, ge=0, le=8, description="Bits per character that make it a secret."
        )

    params: Params

    def setup(self) -> None:
        """Compile the rules."""
        params = self.params
        kinds = list(build_secret_kinds(params.min_length, params.min_entropy))
        kinds += [EMAIL] if params.emails else []
        kinds += [IPV4, IPV6] if params.ips else []
        self._kinds: tuple[Kind, ...] = tuple(kinds)

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
