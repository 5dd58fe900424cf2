"""The stage `redact-secrets`: replaces credentials and addresses in code with their kind.

Redacting a text twice changes nothing. The stage recognizes secrets by their form, and cannot
determine whether a secret is in use.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from pydantic import Field

from strandline.plan.stages.stage import Stage
from strandline_api.texts import SECRET, SECRETS, RedactionRule
from strandline_packs.text.privacy.addresses import EMAIL, IPV4, IPV6
from strandline_packs.text.privacy.redaction import RedactingStage

# Substrings of constants such as `abcdef0123456789`, which have high entropy but are not secrets.
_ALPHABETS = ("abcdef", "ABCDEF", "012345")


class RedactSecrets(RedactingStage):
    """Replaces secrets with `<SECRET>`, e-mail with `<EMAIL>`, and public IPs with `<IP>`."""

    class Params(Stage.Params):
        """Configures the columns to search, and the kinds of secrets."""

        columns: tuple[str, ...] = Field(
            default=("signature", "docstring", "source", "decorators"),
            min_length=1,
            description="Columns of text, or of lists of text, to redact.",
        )
        emails: bool = Field(default=True, description="Redact e-mail addresses.")
        ips: bool = Field(default=True, description="Redact public IPv4 and IPv6 addresses.")
        min_length: int = Field(
            default=32,
            ge=16,
            le=512,
            description="Minimum length of quoted strings whose entropy is checked.",
        )
        min_entropy: float = Field(
            default=4.3,
            ge=0,
            le=8,
            description="Minimum entropy of a secret, in bits per character.",
        )

    version = "2"
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


def build_secret_kinds(min_length: int, min_entropy: float) -> tuple[RedactionRule, ...]:
    """Return the kinds of secrets, the most certain first.

    Args:
        min_length: minimal length of quoted strings that are judged by entropy, in characters.
        min_entropy: minimal entropy of a secret, in bits per character.
    """

    def looks_random(text: str) -> bool:
        if any(alphabet in text for alphabet in _ALPHABETS):
            return False
        # Words and identifiers rarely mix both; generated secrets do.
        mixed = any(map(str.isdigit, text)) and any(map(str.isalpha, text))
        return mixed and measure_entropy(text) >= min_entropy

    # Matches quoted runs such as `"hT5/x9Q+..."` of at least `min_length` characters.
    quoted = rf"(?P<quote>[\"'])(?P<value>[A-Za-z0-9+/=_-]{{{min_length},512}})(?P=quote)"
    return (
        *SECRETS,
        RedactionRule("random string", re.compile(quoted), SECRET, looks_random),
    )


def measure_entropy(text: str) -> float:
    """Return the Shannon entropy in bits per character, or 0 for an empty text."""
    total = len(text)
    shares = [number / total for number in Counter(text).values()]
    return -sum(share * math.log2(share) for share in shares)
