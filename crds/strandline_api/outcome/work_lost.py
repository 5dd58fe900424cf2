"""Records how many seconds of work an attempt lost, by cause. A later attempt repeats this work."""

from typing import Annotated

from pydantic import ConfigDict, Field

from strandline_api.api_model import ApiModel

_Seconds = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]


class WorkLost(ApiModel):
    """Seconds that workers spent on calls whose results are lost."""

    model_config = ConfigDict(extra="ignore")

    node: _Seconds = Field(default=0.0, description="Lost with nodes.")
    memory: _Seconds = Field(default=0.0, description="Lost with workers killed for memory.")
    kill: _Seconds = Field(default=0.0, description="Lost with workers that died otherwise.")
    timeout: _Seconds = Field(
        default=0.0, description="Lost with workers that exceeded a time limit."
    )
    stop: _Seconds = Field(default=0.0, description="Not finished when the attempt was ended.")

    @property
    def seconds(self) -> float:
        """Sum of all losses in seconds."""
        return self.node + self.memory + self.kill + self.timeout + self.stop

    def to_json(self) -> dict[str, float]:
        """Convert to JSON values with the contract's names, rounded to milliseconds."""
        return {name: round(seconds, 3) for name, seconds in self.model_dump().items()}

    def add(self, other: "WorkLost") -> "WorkLost":
        """Return the sum of this record and another."""
        more = other.model_dump()
        return WorkLost(**{name: each + more[name] for name, each in self.model_dump().items()})

    def find_share(self, worked: float) -> float:
        """Return lost work as a share of all work, given the total seconds of work."""
        return min(1.0, self.seconds / worked) if worked > 0 else 0.0
