"""Fetches weights from a URL: copies them once to each node, and verifies their digest."""

from __future__ import annotations

from strandline.plan.errors import StageStoppedError
from strandline_packs.models.asking.serving.commands import ServeParams
from strandline_packs.models.model_files import ModelError, copy_weights


def fetch_weights(serve: ServeParams, name: str) -> ServeParams:
    """Return the parameters, with the URL of the weights replaced by the path of this node's copy.

    Args:
        name: name of the server in messages.

    Raises:
        StageStoppedError: the weights have another digest.
        OSError: the weights can't be read, or the copy can't be written.
    """
    if serve.digest is None:
        return serve
    try:
        path = copy_weights(serve.model, serve.digest)
    except ModelError as error:
        raise StageStoppedError(f"{name}: {error}", is_lasting=True) from None
    return serve.model_copy(update={"model": str(path)})
