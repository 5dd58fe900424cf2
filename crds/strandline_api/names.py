"""Computes names of objects from the pipeline's name and the attempt's number.

A process that restarts after a crash finds its earlier objects by computing the same names, so
these functions never change. Two pipelines never get the same name: a shortened or altered name
contains a digest of the full name, and so does a name that only looks altered. This module must not
depend on the purpose of the objects.
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
    """The names under which the API server serves a kind."""

    name: str
    list_name: str
    singular: str
    plural: str
    short_names: tuple[str, ...]

    @property
    def resource(self) -> str:
        """The plural with the group, which is also the name of the CRD object."""
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


# Kubernetes allows no longer names of objects.
MAX_OBJECT_NAME = 253
# KubeRay appends to the name of a RayJob, and rejects longer names.
MAX_RAYJOB_NAME = 47

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
# Matches `corpus-2`, but not `2-corpus`: RayJob names must start with a letter.
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
# Matches `corpus-x0123456789abcdef`. A user's name of this form gets a digest as well, so no two
# pipelines share a name.
_DIGEST_LIKE = re.compile(r".*-x[0-9a-f]{16}", re.DOTALL)
_CLAIM = "ledger"
# Names of a pipeline's attempts have the same prefix up to this many digits.
_USUAL_DIGITS = 6


def name_attempt(pipeline: str, number: int) -> str:
    """Return the name of an attempt: `corpus-3`, at most 253 characters, valid for any object.

    Raises:
        ValueError: if the number is negative.
    """
    return _join(pipeline, _format_number(number), SUBDOMAIN, MAX_OBJECT_NAME)


def name_rayjob(pipeline: str, number: int) -> str:
    """Return the name of an attempt's RayJob: `corpus-3`, at most 47 characters.

    The name starts with a letter and contains no dots.

    Raises:
        ValueError: if the number is negative.
    """
    return _join(pipeline, _format_number(number), _LABEL, MAX_RAYJOB_NAME)


def name_code(pipeline: str, number: int) -> str:
    """Return the name of the ConfigMap with an attempt's code: `corpus-3-code`.

    Raises:
        ValueError: if the number is negative.
    """
    return _join(pipeline, f"{_format_number(number)}-code", SUBDOMAIN, MAX_OBJECT_NAME)


def name_claim(pipeline: str) -> str:
    """Return the name of the claim with a pipeline's ledger: `corpus-ledger`."""
    return _join(pipeline, _CLAIM, SUBDOMAIN, MAX_OBJECT_NAME)


def name_preflight(pipeline: str) -> str:
    """Return the name of the preflight Job of a pipeline: `corpus-preflight`, a valid label."""
    return _join(pipeline, "preflight", _LABEL, MAX_LABEL)


def name_network(pipeline: str, digest: str) -> str:
    """Return the name of the NetworkPolicy for a pipeline's check and commands.

    An example is `corpus-network-1f…`.

    Args:
        digest: digest of the policy, at most 32 characters. A changed policy gets a new name.
    """
    return _join(pipeline, f"network-{digest}", SUBDOMAIN, MAX_OBJECT_NAME)


def fit_name(pipeline: str, longest: int, shape: re.Pattern[str] = SUBDOMAIN) -> str:
    """Return a name unchanged if it is short and valid, or else a name with a digest of it.

    Args:
        pipeline: any name.
        longest: maximum length in characters, at least 20.
        shape: pattern of valid names; must match every lowercase label.
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
    # The subtracted 1 is the hyphen.
    left = longest - 1 - max(len(end), _USUAL_DIGITS)
    return f"{fit_name(pipeline, left, shape)}-{end}"


def _digest(pipeline: str, left: int) -> str:
    """Return a label of at most `left` characters that ends with a digest of the name."""
    # Any text must have a name here: a document with an invalid name is rejected elsewhere.
    encoded = pipeline.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(encoded, digest_size=8).hexdigest()
    readable = re.sub(r"[^a-z0-9]+", "-", pipeline.lower()).strip("-")
    # Names of RayJobs must start with a letter.
    if not readable[:1].isalpha():
        readable = f"p-{readable}"
    # The subtracted 2 is the separator `-x`, and the cut may leave a hyphen at the end.
    return f"{readable[: left - len(digest) - 2].rstrip('-')}-x{digest}"


PIPELINE_UID_LABEL = f"{GROUP}/pipeline-uid"
PIPELINE_LABEL = f"{GROUP}/pipeline"
ATTEMPT_LABEL = f"{GROUP}/attempt"
# Labels of pods: the role (`head`, `worker`, or `submitter`), and the name of the worker group.
ROLE_LABEL = f"{GROUP}/role"
GROUP_LABEL = f"{GROUP}/group"
# Variables in the containers of an attempt: its number, and, if the operator reports lineage, the
# pipeline's uid. Operator and driver derive the same run IDs from them.
ATTEMPT_VARIABLE = "STRANDLINE_ATTEMPT"
LINEAGE_VARIABLE = "STRANDLINE_LINEAGE_UID"
# Label of the preflight Job and its pod: a token for the checked spec and image. These pods must
# not have the other labels, by which an operator finds pods of attempts.
PREFLIGHT_LABEL = f"{GROUP}/preflight"
# Label of pods of checks and commands whose egress is restricted. The policy selects pods by it.
NETWORK_LABEL = f"{GROUP}/network"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "strandline"

# A new value is a single request: to start an attempt now, to start an attempt that repairs missing
# or damaged files, or to end the run.
RETRY_ANNOTATION = f"{GROUP}/retry"
REPAIR_ANNOTATION = f"{GROUP}/repair"
CANCEL_ANNOTATION = f"{GROUP}/cancel"

# Annotations for a data set's card: the identifier of the license, and the display name.
LICENSE_ANNOTATION = f"{GROUP}/license"
TITLE_ANNOTATION = f"{GROUP}/pretty-name"

# Marks documents for drivers: an API server has checked them, so unknown fields are not mistakes.
STORED_ANNOTATION = f"{GROUP}/stored"

# Keeps a pipeline until its pods are gone.
FINALIZER = f"{GROUP}/teardown"

# Kubernetes allows no longer values of labels.
MAX_LABEL = 63


def format_label_value(pipeline: str) -> str:
    """Return the label value for a pipeline: its name, or 63 characters with a digest."""
    return fit_name(pipeline, MAX_LABEL)


def select_all() -> str:
    """Return the selector of all objects that belong to any pipeline."""
    return PIPELINE_UID_LABEL


def select_pipeline(uid: str) -> str:
    """Return the selector of the objects that belong to the pipeline with a uid."""
    return f"{PIPELINE_UID_LABEL}={uid}"


def select_namesakes(pipeline: str, uid: str) -> str:
    """Return the selector of the objects of other pipelines with the same name but another uid."""
    return f"{PIPELINE_LABEL}={format_label_value(pipeline)},{PIPELINE_UID_LABEL}!={uid}"
