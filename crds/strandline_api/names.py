"""Names of objects as pure functions of the pipeline's name and the attempt's number.

A process that starts again after a crash finds what it had made by computing the same name, so
these functions never change. Two pipelines never get the same name: a name that had to be changed
or cut carries a digest of the whole, and a name that merely looks as if it did gets one too. This
room must not know what the objects are for.
"""

import hashlib
import re
from dataclasses import dataclass

GROUP = "strandline.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
CATEGORY = "curation"


@dataclass(frozen=True, slots=True)
class Kind:
    """The names under which the API server serves one kind."""

    name: str
    list_name: str
    singular: str
    plural: str
    short_names: tuple[str, ...]

    @property
    def resource(self) -> str:
        """The plural with its group, which is also the name of the CRD object."""
        return f"{self.plural}.{GROUP}"


PIPELINE = Kind(
    name="CurationPipeline",
    list_name="CurationPipelineList",
    singular="curationpipeline",
    plural="curationpipelines",
    short_names=("cpipe",),
)
ATTEMPT = Kind(
    name="CurationAttempt",
    list_name="CurationAttemptList",
    singular="curationattempt",
    plural="curationattempts",
    short_names=("catt",),
)


MAX_OBJECT_NAME = 253
# KubeRay appends to it and refuses longer ones.
MAX_RAYJOB_NAME = 47

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DIGEST_LIKE = re.compile(r".*-x[0-9a-f]{16}", re.DOTALL)
_CLAIM = "ledger"
# Names of a pipeline's attempts look alike up to this many digits.
_USUAL_DIGITS = 6


def name_attempt(pipeline: str, number: int) -> str:
    """Name an attempt: `corpus-3`, a name of at most 253 characters that any object may have.

    Raises:
        ValueError: the number is negative.
    """
    return _join(pipeline, _format_number(number), SUBDOMAIN, MAX_OBJECT_NAME)


def name_rayjob(pipeline: str, number: int) -> str:
    """Name an attempt's RayJob: `corpus-3`, at most 47 characters, a letter first, no dots.

    Raises:
        ValueError: the number is negative.
    """
    return _join(pipeline, _format_number(number), _LABEL, MAX_RAYJOB_NAME)


def name_code(pipeline: str, number: int) -> str:
    """Name the ConfigMap with the code of an attempt: `corpus-3-code`.

    Raises:
        ValueError: the number is negative.
    """
    return _join(pipeline, f"{_format_number(number)}-code", SUBDOMAIN, MAX_OBJECT_NAME)


def name_claim(pipeline: str) -> str:
    """Name the claim of the volume that holds a pipeline's ledger: `corpus-ledger`."""
    return _join(pipeline, _CLAIM, SUBDOMAIN, MAX_OBJECT_NAME)


def name_preflight(pipeline: str) -> str:
    """Name the Job that checks a pipeline before it runs: `corpus-preflight`, a label."""
    return _join(pipeline, "preflight", _LABEL, MAX_LABEL)


def name_network(pipeline: str, digest: str) -> str:
    """Name the NetworkPolicy of a pipeline's check and commands: `corpus-network-1f…`.

    Args:
        digest: of what it says, at most 32 characters: what says something else is another one.
    """
    return _join(pipeline, f"network-{digest}", SUBDOMAIN, MAX_OBJECT_NAME)


def fit_name(pipeline: str, longest: int, shape: re.Pattern[str] = SUBDOMAIN) -> str:
    """Keep a name that is short and well formed, else make one with a digest of it.

    Args:
        pipeline: the name, of any kind.
        longest: characters there is room for, at least 20.
        shape: what the whole name must look like; a lowercase label must be such a shape.
    """
    is_kept = (
        len(pipeline) <= longest
        and shape.fullmatch(pipeline) is not None
        and _DIGEST_LIKE.fullmatch(pipeline) is None
    )
    return pipeline if is_kept else _digest(pipeline, longest)


def _format_number(number: int) -> str:
    if number < 0:
        raise ValueError(f"an attempt's number must not be negative: {number}")
    return str(number)


def _join(pipeline: str, end: str, shape: re.Pattern[str], longest: int) -> str:
    left = longest - 1 - max(len(end), _USUAL_DIGITS)
    return f"{fit_name(pipeline, left, shape)}-{end}"


def _digest(pipeline: str, left: int) -> str:
    """Make a label of at most `left` characters that ends in a digest of the pipeline's name."""
    encoded = pipeline.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(encoded, digest_size=8).hexdigest()
    readable = re.sub(r"[^a-z0-9]+", "-", pipeline.lower()).strip("-")
    if not readable[:1].isalpha():
        readable = f"p-{readable}"
    return f"{readable[: left - len(digest) - 2].rstrip('-')}-x{digest}"


PIPELINE_UID_LABEL = f"{GROUP}/pipeline-uid"
PIPELINE_LABEL = f"{GROUP}/pipeline"
ATTEMPT_LABEL = f"{GROUP}/attempt"
# Labels of pods: `head`, `worker` or `submitter`, and the name of the worker group.
ROLE_LABEL = f"{GROUP}/role"
GROUP_LABEL = f"{GROUP}/group"
# Variables in the containers of an attempt: its number, and where the operator reports to a lineage
# system, the pipeline's uid, by which both name the same runs.
ATTEMPT_VARIABLE = "STRANDLINE_ATTEMPT"
LINEAGE_VARIABLE = "STRANDLINE_LINEAGE_UID"
# Label of the Job that checks a pipeline before it runs, and of its pod: what is checked, and for
# when. An operator finds pods of attempts by the other labels, which it therefore must not have.
PREFLIGHT_LABEL = f"{GROUP}/preflight"
# Label of pods beside attempts, checks and commands, where their way out is restricted: which
# policy selects them.
NETWORK_LABEL = f"{GROUP}/network"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "strandline"

# A new value asks once: for an attempt now, for one that does again what is missing or hurt, or for
# the end of the run.
RETRY_ANNOTATION = f"{GROUP}/retry"
REPAIR_ANNOTATION = f"{GROUP}/repair"
CANCEL_ANNOTATION = f"{GROUP}/cancel"

# Annotations of a data set's card: the identifier of its license, and its name for people.
LICENSE_ANNOTATION = f"{GROUP}/license"
TITLE_ANNOTATION = f"{GROUP}/pretty-name"

# On what a driver is given: an API server has checked it, so fields it does not know are no slips.
STORED_ANNOTATION = f"{GROUP}/stored"

# Keeps a pipeline that may have pods until they are gone.
FINALIZER = f"{GROUP}/teardown"

MAX_LABEL = 63


def format_label_value(pipeline: str) -> str:
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
    return f"{PIPELINE_LABEL}={format_label_value(pipeline)},{PIPELINE_UID_LABEL}!={uid}"
