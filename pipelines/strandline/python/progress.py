"""Displays the progress of a run started from Python: in a notebook, a terminal, or a log.

The module chooses the display. The views of the command line format progress, and are loaded only
when progress is shown. IPython is used only if the caller has already loaded it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from strandline.engine.core.ports import RunProgress


class Display(NamedTuple):
    """Display of a run.

    Attributes:
        report: shows a progress report.
        announce: shows a sentence.
        end: shows a sentence about the result of the run.
    """

    report: Callable[[RunProgress], None]
    announce: Callable[[str], None]
    end: Callable[[str], None]


NOWHERE = Display(lambda _: None, lambda _: None, lambda _: None)


@contextmanager
def displaying(name: str, *, is_wanted: bool | None, is_debugged: bool) -> Iterator[Display]:
    """Show the progress of a run until the block ends.

    Args:
        name: name of the pipeline.
        is_wanted: whether to show progress; None shows progress in a notebook or a terminal.
        is_debugged: whether a debugger may use the same terminal, which a redrawn table would
            disturb.
    """
    display = None if is_wanted is False else find_display(sys.modules)
    is_seen = sys.stderr.isatty() and not is_debugged
    if display is None and not (is_seen if is_wanted is None else is_wanted):
        yield NOWHERE
        return
    # Load this here: a pipeline that is not shown needs neither click nor rich.
    from strandline.cli.views.reporter import NotebookReporter, create_reporter  # noqa: PLC0415

    reporter = create_reporter(is_json=False) if display is None else NotebookReporter(display)
    with reporter.watching(name):
        yield Display(reporter.take, reporter.announce, reporter.end)


def find_display(modules: dict[str, Any]) -> Callable[..., Any] | None:
    """Return IPython's `display` if this process is a notebook's kernel; otherwise, None.

    Args:
        modules: loaded modules, by name.
    """
    ipython = modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    # IPython in a terminal has a shell too, but can't redraw output.
    if getattr(shell, "kernel", None) is None:
        return None
    display: Callable[..., Any] = modules["IPython.display"].display
    return display
