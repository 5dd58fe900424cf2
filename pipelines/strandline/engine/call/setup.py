"""Setting a stage up, in whatever process it is to work: once a node, once a worker.

It must not know what the stage is then called for, nor by whom.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import ClassVar

from strandline.engine.call.stage_call import explain_error
from strandline.plan.errors import StrandlineError
from strandline.plan.packages import explain_import
from strandline.plan.pipeline import StagePlan
from strandline_api.outcome.exit_codes import ExitCode


class StageSetupError(StrandlineError):
    """A stage can't be set up in its worker, or on its node."""


class PackageMissingError(StageSetupError):
    """A stage needs a package that is not where it works; another attempt would not find it."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_SPEC


def name_setup_error(what: str, error: Exception) -> StageSetupError:
    """An error of a set-up, with what could not be done in front."""
    if isinstance(error, ImportError):
        return PackageMissingError(f"{what}: {explain_import(error)}")
    return StageSetupError(f"{what}: {explain_error(error)}")


def has_node_setup(stage: StagePlan) -> bool:
    """True where there is anything to do once a node."""
    return stage.overrides("setup_on_node")


def set_up_node(stage: StagePlan, node: str) -> None:
    """Have the stage do what it does once a node.

    Args:
        node: what people call it.

    Raises:
        StageSetupError: its own `setup_on_node` raised; a `PackageMissingError` where that is why.
    """
    try:
        copy.deepcopy(stage.stage).setup_on_node()
    except Exception as error:
        what = f"stage {stage.name!r} can't set up node {node!r}"
        raise name_setup_error(what, error) from error


def set_up_stage(stage: StagePlan) -> StagePlan:
    """A copy of the stage that is ready for work.

    Raises:
        StageSetupError: its own `setup` raised; a `PackageMissingError` where that is why.
    """
    own = replace(stage, stage=copy.deepcopy(stage.stage))
    try:
        own.stage.setup()
    except Exception as error:
        raise name_setup_error(f"stage {stage.name!r} can't be set up", error) from error
    return own
