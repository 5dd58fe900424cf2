"""Tokens by which a driver authenticates callers. The head pod's environment has only digests.

The token for reading progress derives from the attempt's uid, because statuses show the same data
to everyone with read access to attempts. The tokens for changes (releasing an ended driver,
announcing that a node is about to leave) are secret: they derive from a key that only the operator
has.
"""

import hashlib
import hmac

from strandline_api.names import ATTEMPT_VARIABLE, LINEAGE_VARIABLE

# Variables with two digests: for releasing an ended driver, and for reading. An older operator sets
# only the first and reads without a token, so the two are separate.
VARIABLE = "STRANDLINE_HEARER"
READER_VARIABLE = "STRANDLINE_READER"
# Variables for notices that a node is about to leave. The head has the digest. Workers have the
# token itself, because their pods announce their own end to the driver.
NOTICE_VARIABLE = "STRANDLINE_NOTICE"
NOTICE_TOKEN_VARIABLE = "STRANDLINE_NOTICE_TOKEN"  # noqa: S105 - a name
# Variables for the driver only. Pods that copy the driver's container must leave these variables
# out.
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
# Header with the token of the caller that releases an ended driver.
RELEASE_HEADER = "Strandline-Release"
KEY_BYTES = 32


def derive_token(attempt_uid: str) -> str:
    """Derive the token for reading an attempt's progress from the uid of the attempt."""
    return hashlib.sha256(f"strandline outcome of {attempt_uid}".encode()).hexdigest()


def derive_release_token(key: bytes, attempt_uid: str) -> str:
    """Derive the token for releasing an attempt's ended driver, using the operator's key."""
    # The signed text differs for each purpose, so a token for notices cannot release a driver.
    return _sign(key, f"release of {attempt_uid}")


def derive_notice_token(key: bytes, attempt_uid: str) -> str:
    """Derive the token for notices to an attempt's driver, using the operator's key."""
    return _sign(key, f"notice of {attempt_uid}")


def derive_former_notice_token(attempt_uid: str) -> str:
    """Derive the token for notices as the previous release did, for attempts that it started."""
    return hashlib.sha256(f"strandline notice of {attempt_uid}".encode()).hexdigest()


def _sign(key: bytes, text: str) -> str:
    return hmac.new(key, f"strandline {text}".encode(), hashlib.sha256).hexdigest()


def digest_token(token: str) -> str:
    """Return the digest of a token, for the environment of a pod."""
    return hashlib.sha256(token.encode()).hexdigest()


def is_reader(token: str, digest: str) -> bool:
    """Return True if a token matches a digest. Without a digest, accept any token.

    An operator of an earlier version sets no digest and sends no token.
    """
    # The comparison takes the same time for every token, so its duration reveals nothing. Compare
    # bytes, because `compare_digest` accepts only ASCII text.
    return not digest or hmac.compare_digest(digest_token(token).encode(), digest.encode())
