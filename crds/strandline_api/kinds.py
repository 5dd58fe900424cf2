"""The API group and the names of its kinds, spelled once.

Whoever writes or reads a manifest takes these names from here. This room must not know what a
kind contains.
"""

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
