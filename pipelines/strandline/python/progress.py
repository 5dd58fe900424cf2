"""How a run that was started from Python is shown: in a notebook, in a terminal, in a log.

It chooses; how an attempt looks is the command line's views' to say, which are loaded when there is
something to show. IPython is used where the caller has loaded it, and never asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from strandline.engine.core.ports import RunProgress


class Display(NamedTuple):
    """Where a run is shown.

    Attributes:
        report: takes how far it is.
        announce: shows a sentence.
        end: takes the sentence that says what the run came to.
    """

    report: Callable[[RunProgress], None]
    announce: Callable[[str], None]
    end: Callable[[str], None]


NOWHERE = Display(lambda _: None, lambda _: None, lambda _: None)


@contextmanager
def displaying(name: str, *, is_wanted: bool | None, is_debugged: bool) -> Iterator[Display]:
    """Show a run as long as the block lasts.

    Args:
        name: of the pipeline.
        is_wanted: None: where a person looks on, in a notebook or a terminal.
        is_debugged: a user may have a debugger in this very terminal, and a table that is drawn
            over and over would take it away.
    """
    display = None if is_wanted is False else find_display(sys.modules)
    is_seen = sys.stderr.isatty() and not is_debugged
    if display is None and not (is_seen if is_wanted is None else is_wanted):
        yield NOWHERE
        return
    # Loaded here: a pipeline that is not shown needs neither click nor rich.
    from strandline.cli.views.reporter import NotebookReporter, create_reporter  # noqa: PLC0415

    reporter = create_reporter(is_json=False) if display is None else NotebookReporter(display)
    with reporter.watching(name):
        yield Display(reporter.take, reporter.announce, reporter.end)


def find_display(modules: dict[str, Any]) -> Callable[..., Any] | None:
    """Return IPython's `display` where this process is a notebook's kernel; None elsewhere.

    Args:
        modules: those that are loaded.
    """
    ipython = modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    # In a terminal IPython has a shell too, but nothing that could be drawn over.
    if getattr(shell, "kernel", None) is None:
        return None
    display: Callable[..., Any] = modules["IPython.display"].display
    return display
