"""How a driver knows a caller: by a token of the attempt, of which the head's pod has the digest.

The token that reads progress comes from the attempt's uid, since statuses show the same to all that
may read attempts. The tokens that change something, by letting an ended driver go or by saying that
a node goes, are secret: they come from a key that the operator alone has.
"""

import hashlib
import hmac

from strandline_api.names import ATTEMPT_VARIABLE, LINEAGE_VARIABLE

# Variables for the reader that lets an ended driver go, and for one that may read what it tells.
# Apart, since an operator of before sets the first alone and reads without a token.
VARIABLE = "STRANDLINE_HEARER"
READER_VARIABLE = "STRANDLINE_READER"
# Variables for senders that may tell a driver that a node is going: its digest is in the head, and
# the token itself in workers, since their pods tell it of their own end.
NOTICE_VARIABLE = "STRANDLINE_NOTICE"
NOTICE_TOKEN_VARIABLE = "STRANDLINE_NOTICE_TOKEN"  # noqa: S105 - a name
# Variables that speak of the driver: no other container of a pod made like its own is to have them.
DRIVERS_OWN = frozenset(
    {
        ATTEMPT_VARIABLE,
        LINEAGE_VARIABLE,
        VARIABLE,
        READER_VARIABLE,
        NOTICE_VARIABLE,
        NOTICE_TOKEN_VARIABLE,
    }
)
HEADER = "Strandline-Token"
# The header with the token of the caller that lets an ended driver go.
RELEASE_HEADER = "Strandline-Release"
KEY_BYTES = 32


def derive_token(attempt_uid: str) -> str:
    """Derive the token that reads an attempt's progress from its object's uid."""
    return hashlib.sha256(f"strandline outcome of {attempt_uid}".encode()).hexdigest()


def derive_release_token(key: bytes, attempt_uid: str) -> str:
    """Derive the token that lets an attempt's ended driver go from the operator's key."""
    return _sign(key, f"release of {attempt_uid}")


def derive_notice_token(key: bytes, attempt_uid: str) -> str:
    """Derive the token for telling an attempt's driver that a node goes from the operator's key."""
    return _sign(key, f"notice of {attempt_uid}")


def derive_former_notice_token(attempt_uid: str) -> str:
    """Derive the token for the same that attempts of the last release have."""
    return hashlib.sha256(f"strandline notice of {attempt_uid}".encode()).hexdigest()


def _sign(key: bytes, text: str) -> str:
    return hmac.new(key, f"strandline {text}".encode(), hashlib.sha256).hexdigest()


def digest_token(token: str) -> str:
    """Compute what a pod is given in the environment, under both variables."""
    return hashlib.sha256(token.encode()).hexdigest()


def is_reader(token: str, digest: str) -> bool:
    """Return whether a token is the one of a digest; without a digest any will do.

    An operator of an earlier version gives no digest and sends no token.
    """
    return not digest or hmac.compare_digest(digest_token(token).encode(), digest.encode())
