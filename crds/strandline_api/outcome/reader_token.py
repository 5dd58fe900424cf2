"""How an ended driver knows that it was heard by the operator, and may go.

Anybody who reaches its port may read how it ended; it waits for whoever has the attempt's token.
A pod is given the token's digest alone, so neither the network nor the code in the pod can tell the
token, and the operator has nothing to store: it derives the token from what the API server keeps.
"""

import hashlib
import hmac

VARIABLE = "STRANDLINE_HEARER"
HEADER = "Strandline-Token"


def derive_token(attempt_uid: str) -> str:
    """Derive the token of an attempt from its object's uid, which is random and in no pod."""
    return hashlib.sha256(f"strandline outcome of {attempt_uid}".encode()).hexdigest()


def digest_token(token: str) -> str:
    """Compute what a pod is given in the environment, under `VARIABLE`."""
    return hashlib.sha256(token.encode()).hexdigest()


def is_reader(token: str, digest: str) -> bool:
    """Return whether a token is the one of a digest; without a digest anybody's will do.

    An operator of an earlier version gives no digest and sends no token.
    """
    return not digest or hmac.compare_digest(digest_token(token).encode(), digest.encode())
