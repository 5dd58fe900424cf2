"""Labels, annotations and the finalizer on the objects of a cluster, spelled once.

Everything that is made for a pipeline carries the labels, so that it is found again without its
name; people put the annotations on a pipeline to ask for something. This room must not know how
objects are made or found.
"""

from strandline_api.kinds import GROUP
from strandline_api.names import fit_name

PIPELINE_UID_LABEL = f"{GROUP}/pipeline-uid"
PIPELINE_LABEL = f"{GROUP}/pipeline"
ATTEMPT_LABEL = f"{GROUP}/attempt"
# Of pods: `head`, `worker` or `submitter`, and the name of the worker group.
ROLE_LABEL = f"{GROUP}/role"
GROUP_LABEL = f"{GROUP}/group"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "strandline"

# A new value asks once: for an attempt now, or for the end of the run.
RETRY_ANNOTATION = f"{GROUP}/retry"
CANCEL_ANNOTATION = f"{GROUP}/cancel"

# On what a driver is given: an API server has checked it, so fields it does not know are no slips.
STORED_ANNOTATION = f"{GROUP}/stored"

# Keeps a pipeline that may have pods until they are gone.
FINALIZER = f"{GROUP}/teardown"

MAX_LABEL = 63


def spell_label(pipeline: str) -> str:
    """Name a pipeline in the value of a label: its name, or one of 63 characters with a digest."""
    return fit_name(pipeline, MAX_LABEL)


def select_all() -> str:
    """Make the selector of all that was made for pipelines."""
    return PIPELINE_UID_LABEL


def select_pipeline(uid: str) -> str:
    """Make the selector of what belongs to the pipeline of that uid."""
    return f"{PIPELINE_UID_LABEL}={uid}"


def select_namesakes(pipeline: str, uid: str) -> str:
    """Make the selector of what belongs to a pipeline of that name with another uid."""
    return f"{PIPELINE_LABEL}={spell_label(pipeline)},{PIPELINE_UID_LABEL}!={uid}"


def select_attempt(uid: str, number: int) -> str:
    """Make the selector of what belongs to one attempt of the pipeline of that uid."""
    return f"{select_pipeline(uid)},{ATTEMPT_LABEL}={number}"
