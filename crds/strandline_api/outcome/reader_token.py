"""How a driver knows a caller: as one that may see how far it is, or lets it go at the end.

A pod is given the digest of the attempt's token alone, so the code in the pod can't tell the token
before a caller shows it, and the operator has nothing to store: it derives the token from what the
API server keeps, and so can all that may read attempts.
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


def derive_token(attempt_uid: str) -> str:
    """Derive the token of an attempt from its object's uid, which is random and in no pod."""
    return hashlib.sha256(f"strandline outcome of {attempt_uid}".encode()).hexdigest()


def derive_notice_token(attempt_uid: str) -> str:
    """Derive the token for telling an attempt's driver that a node goes.

    Another than the reader's: a reader can't make a driver give nodes up.
    """
    return hashlib.sha256(f"strandline notice of {attempt_uid}".encode()).hexdigest()


def digest_token(token: str) -> str:
    """Compute what a pod is given in the environment, under both variables."""
    return hashlib.sha256(token.encode()).hexdigest()


def is_reader(token: str, digest: str) -> bool:
    """Return whether a token is the one of a digest; without a digest any will do.

    An operator of an earlier version gives no digest and sends no token.
    """
    return not digest or hmac.compare_digest(digest_token(token).encode(), digest.encode())
