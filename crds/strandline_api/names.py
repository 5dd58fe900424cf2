"""Computes names of objects from the pipeline's name and the attempt's number.

A process that restarts after a crash finds its earlier objects by computing the same names, so
these functions must never change. Two pipelines never get the same name: if a name was shortened or
altered, or looks as if it was, the result contains a digest of the full name. This module must not
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
    """The names of a Kubernetes kind: for manifests, URLs, and kubectl."""

    name: str
    list_name: str
    singular: str
    plural: str
    short_names: tuple[str, ...]

    @property
    def resource(self) -> str:
        """Plural and group, which is also the name of the CRD object."""
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


# Kubernetes rejects longer object names.
MAX_OBJECT_NAME = 253
# KubeRay appends a suffix to RayJob names, and rejects longer names.
MAX_RAYJOB_NAME = 47

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
# Matches `corpus-2`, but not `2-corpus`: RayJob names must start with a letter.
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
# Matches `corpus-x0123456789abcdef`. A user's name of this form gets a digest as well, so no two
# pipelines share a name.
_DIGEST_LIKE = re.compile(r".*-x[0-9a-f]{16}", re.DOTALL)
_CLAIM = "ledger"
# Reserve space for this many digits, so that the names of a pipeline's attempts share a prefix.
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
    """Return the name of the ConfigMap with the code for an attempt: `corpus-3-code`.

    Raises:
        ValueError: if the number is negative.
    """
    return _join(pipeline, f"{_format_number(number)}-code", SUBDOMAIN, MAX_OBJECT_NAME)


def name_claim(pipeline: str) -> str:
    """Return the name of the claim that stores a pipeline's ledger: `corpus-ledger`."""
    return _join(pipeline, _CLAIM, SUBDOMAIN, MAX_OBJECT_NAME)


def name_preflight(pipeline: str) -> str:
    """Return the name of a pipeline's preflight Job: `corpus-preflight`, also valid as a label."""
    return _join(pipeline, "preflight", _LABEL, MAX_LABEL)


def name_network(pipeline: str, digest: str) -> str:
    """Return the name of the NetworkPolicy for a pipeline's preflight and command pods.

    An example is `corpus-network-1f…`.

    Args:
        digest: digest of the policy, at most 32 characters. A changed policy gets a new name.
    """
    return _join(pipeline, f"network-{digest}", SUBDOMAIN, MAX_OBJECT_NAME)


def fit_name(pipeline: str, longest: int, shape: re.Pattern[str] = SUBDOMAIN) -> str:
    """Return a name unchanged if it is short and valid. Otherwise, return a name with its digest.

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
    # Subtract 1 for the hyphen.
    left = longest - 1 - max(len(end), _USUAL_DIGITS)
    return f"{fit_name(pipeline, left, shape)}-{end}"


def _digest(pipeline: str, left: int) -> str:
    """Return a label of at most `left` characters that ends with a digest of the name."""
    # Every text needs a name here, even if it is invalid: other code rejects documents with invalid
    # names.
    encoded = pipeline.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(encoded, digest_size=8).hexdigest()
    readable = re.sub(r"[^a-z0-9]+", "-", pipeline.lower()).strip("-")
    # Names of RayJobs must start with a letter.
    if not readable[:1].isalpha():
        readable = f"p-{readable}"
    # Subtract 2 for the separator `-x`. Truncation may leave a hyphen at the end.
    return f"{readable[: left - len(digest) - 2].rstrip('-')}-x{digest}"


PIPELINE_UID_LABEL = f"{GROUP}/pipeline-uid"
PIPELINE_LABEL = f"{GROUP}/pipeline"
ATTEMPT_LABEL = f"{GROUP}/attempt"
# Pod labels: the role (`head`, `worker`, or `submitter`), and the name of the worker group.
ROLE_LABEL = f"{GROUP}/role"
GROUP_LABEL = f"{GROUP}/group"
# Environment variables of an attempt's containers: the attempt's number, and the pipeline's uid if
# the operator reports lineage. Operator and driver derive the same run IDs from them.
ATTEMPT_VARIABLE = "STRANDLINE_ATTEMPT"
LINEAGE_VARIABLE = "STRANDLINE_LINEAGE_UID"
# Label of the preflight Job and its pod. The value identifies the checked spec and image. These
# pods must not have the labels that the operator uses to find pods of attempts.
PREFLIGHT_LABEL = f"{GROUP}/preflight"
# Label of preflight and command pods with restricted egress. The NetworkPolicy selects pods by this
# label.
NETWORK_LABEL = f"{GROUP}/network"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "strandline"

# Request annotations. A new value is one request: to start an attempt now, to start an attempt that
# repairs missing or damaged files, or to end the run.
RETRY_ANNOTATION = f"{GROUP}/retry"
REPAIR_ANNOTATION = f"{GROUP}/repair"
CANCEL_ANNOTATION = f"{GROUP}/cancel"

# Annotations for a data set's card: the identifier of the license, and the display name.
LICENSE_ANNOTATION = f"{GROUP}/license"
TITLE_ANNOTATION = f"{GROUP}/pretty-name"

# Marks documents for drivers: the API server has validated them, so unknown fields are not
# mistakes.
STORED_ANNOTATION = f"{GROUP}/stored"

# Finalizer that keeps a pipeline until its pods are gone.
FINALIZER = f"{GROUP}/teardown"

# Kubernetes rejects longer label values.
MAX_LABEL = 63


def format_label_value(pipeline: str) -> str:
    """Return the label value for a pipeline: its name, or up to 63 characters with a digest."""
    return fit_name(pipeline, MAX_LABEL)


def select_all() -> str:
    """Return the label selector for the objects of all pipelines."""
    return PIPELINE_UID_LABEL


def select_pipeline(uid: str) -> str:
    """Return the label selector for the objects of the pipeline with this uid."""
    return f"{PIPELINE_UID_LABEL}={uid}"


def select_namesakes(pipeline: str, uid: str) -> str:
    """Return the label selector for objects of pipelines with this name but another uid."""
    return f"{PIPELINE_LABEL}={format_label_value(pipeline)},{PIPELINE_UID_LABEL}!={uid}"
