"""The rules of a redo, best first. Each rule is a module in this package, and is listed here."""

from __future__ import annotations

from collections.abc import Mapping

from strandline.run.revise.starts.latest_cut import LatestCut
from strandline.run.revise.starts.sink_files import SinkFiles
from strandline.run.revise.starts.start import DueSource, RedoRule, Start

RULES: Mapping[str, RedoRule] = {
    # The sink's files contain the output of the last stage before the sink, and every run writes
    # them.
    "sink-files": SinkFiles(),
    "cut": LatestCut(),
}


def find_start(due: DueSource) -> Start:
    """Return the starting point from the first rule that finds one, or the beginning."""
    for name, rule in RULES.items():
        start = rule.find(due)
        if start is not None:
            return start._replace(rule=name)
    return Start()


def describe_start(start: Start) -> str:
    """Describe a starting point in words."""
    return RULES[start.rule].describe(start) if start.rule else "from the beginning"
