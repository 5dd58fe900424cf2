"""Problems of a document, in sentences for its author.

This module must not depend on any particular document, and loads quickly: commands that read no
document import it, too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from difflib import get_close_matches

from strandline_api.notation.excerpts import shorten

# The longest list of known names that is still helpful in a sentence.
_FEW = 12
# Longer integers have more than 60 digits, and Python refuses to convert very long integers to
# text.
_LONG_BITS = 200


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a document: the path, the description, and a suggestion.

    Attributes:
        position: file and line, such as `pipeline.yaml:12`; empty if unknown.
    """

    path: str
    message: str
    suggestion: str = ""
    position: str = field(default="", compare=False)

    def __str__(self) -> str:
        """Join the parts: `spec.stagess: unknown field 'stagess'; did you mean 'stages'?`."""
        text = f"{self.message}; {self.suggestion}" if self.suggestion else self.message
        return ": ".join(filter(None, (self.position, self.path, text)))


class SpecError(ValueError):
    """Raised if a document is not a valid pipeline or attempt.

    Attributes:
        problems: all problems, at least one.
    """

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        """Store the problems. The message has one line per problem."""
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Suggest the closest known name. If no name is close, list all names, unless they are many."""
    names = list(known)
    # Ignore hyphens, underscores, and case: `min_words` and `min-words` mean `minWords`.
    folded = {_folded(name): name for name in names}
    close = get_close_matches(_folded(word), folded, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{folded[close[0]]}'?"
    return f"known names: {', '.join(names)}" if 0 < len(names) <= _FEW else ""


def show(value: object) -> str:
    """Format a value from a document for a message, in YAML notation."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple | set):
        return "a list"
    if isinstance(value, int) and value.bit_length() > _LONG_BITS:
        return "a very long number"
    if isinstance(value, date | datetime):
        return f"the date {value}"
    return shorten(value)


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
