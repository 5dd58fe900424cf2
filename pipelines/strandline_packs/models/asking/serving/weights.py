"""Weights of a served model that a URL names: copied to a node once, and by their digest."""

from __future__ import annotations

from strandline.plan.errors import StageStoppedError
from strandline_packs.models.asking.serving.commands import ServeParams
from strandline_packs.models.model_files import ModelError, copy_weights


def fetch_weights(serve: ServeParams, name: str) -> ServeParams:
    """Return the parameters with the path of this node's copy, where they have a URL.

    Args:
        name: of the server, in messages.

    Raises:
        StageStoppedError: the weights are others.
        OSError: they can't be read, or not written here.
    """
    if serve.digest is None:
        return serve
    try:
        path = copy_weights(serve.model, serve.digest)
    except ModelError as error:
        raise StageStoppedError(f"{name}: {error}", is_lasting=True) from None
    return serve.model_copy(update={"model": str(path)})
