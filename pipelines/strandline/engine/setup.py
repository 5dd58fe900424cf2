"""Setting a stage up, in whatever process it is to work: once a node, once a worker.

It must not know what the stage is then called for, nor by whom.
"""

from __future__ import annotations

import copy
from dataclasses import replace

from strandline.engine.execution import explain_error
from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import StagePlan


class StageSetupError(StrandlineError):
    """A stage can't be set up in its worker, or on its node."""


def has_node_setup(stage: StagePlan) -> bool:
    """True where there is anything to do once a node."""
    return stage.overrides("setup_on_node")


def set_up_node(stage: StagePlan, node: str) -> None:
    """Have the stage do what it does once a node.

    Args:
        node: what people call it.

    Raises:
        StageSetupError: its own `setup_on_node` raised.
    """
    try:
        copy.deepcopy(stage.stage).setup_on_node()
    except Exception as error:
        msg = f"stage {stage.name!r} can't set up node {node!r}: {explain_error(error)}"
        raise StageSetupError(msg) from error


def set_up_stage(stage: StagePlan) -> StagePlan:
    """A copy of the stage that is ready for work.

    Raises:
        StageSetupError: its own `setup` raised.
    """
    own = replace(stage, stage=copy.deepcopy(stage.stage))
    try:
        own.stage.setup()
    except Exception as error:
        msg = f"stage {stage.name!r} can't be set up: {explain_error(error)}"
        raise StageSetupError(msg) from error
    return own
