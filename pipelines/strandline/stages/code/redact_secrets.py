"""The stage `redact-secrets`: credentials and addresses in code, replaced by what they were.

Redacting twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from strandline.plan.registry import register
from strandline.plan.stage import Stage
from strandline.stages.code.secret_kinds import build_secret_kinds
from strandline.stages.text.addresses import EMAIL, IPV4, IPV6, RedactionRule
from strandline.stages.text.redaction import RedactingStage


@register("redact-secrets")
class RedactSecrets(RedactingStage):
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

    def list_kinds(self) -> Iterator[RedactionRule]:
        """Yield the rules for credentials, then those for addresses."""
        params = self.params
        yield from build_secret_kinds(params.min_length, params.min_entropy)
        yield from (EMAIL,) if params.emails else ()
        yield from (IPV4, IPV6) if params.ips else ()

    def list_columns(self) -> tuple[str, ...]:
        """Return the columns that the parameters name."""
        return self.params.columns
