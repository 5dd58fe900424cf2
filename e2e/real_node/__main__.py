"""Command line of the node.

python -m real_node up [--folder FOLDER] [--trial] [-- COMMAND ...]
python -m real_node enter [--folder FOLDER] [-- COMMAND ...]
python -m real_node sweep [--folder FOLDER]
python -m real_node leftovers [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from real_node.binaries import Binaries
from real_node.errors import NodeError
from real_node.inside.supervision import BROKEN, Order, supervise
from real_node.outside import leftovers, lifetime
from real_node.trials import trial

TRIAL = (sys.executable, "-m", "real_node.trials.trial")


def main(arguments: Sequence[str]) -> int:
    """Run a subcommand and return an exit code."""
    part, *rest = arguments or ["--help"]
    # Internal commands, which only this package's own processes call.
    if part == "keep":
        return lifetime.keep(Path(rest[0]), rest[1:])
    if part == "supervise":
        return supervise(read_order(rest), report)
    words, command = split_command(arguments)
    options = make_parser().parse_args(words)
    options.folder = options.folder.resolve()
    return COMMANDS[options.word](options, command)


def bring_up(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Start a node for a command, or for the node's own trial."""
    if options.trial:
        return lifetime.bring_up(options.folder, TRIAL, report, trial.PACKAGES)
    return lifetime.bring_up(options.folder, command, report)


def enter(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Run a command on a running node.

    Raises:
        NodeError: if no node is running.
    """
    shell = [os.environ.get("SHELL", "/bin/sh")]
    return lifetime.enter(options.folder, command or shell)


def sweep(options: argparse.Namespace, command: Sequence[str]) -> int:  # noqa: ARG001
    """Remove leftovers of a killed node."""
    lifetime.sweep(options.folder)
    return 0


def show_leftovers(options: argparse.Namespace, command: Sequence[str]) -> int:  # noqa: ARG001
    """Print the leftovers of a node, and fail if there are any."""
    found = leftovers.list_leftovers(options.folder)
    print("\n".join(found) or "nothing is left")
    return 1 if found else 0


COMMANDS: Mapping[str, Callable[[argparse.Namespace, Sequence[str]], int]] = MappingProxyType(
    {"up": bring_up, "enter": enter, "sweep": sweep, "leftovers": show_leftovers}
)


def split_command(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the node's arguments from the command after `--`."""
    words = list(arguments)
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def make_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments before `--`."""
    parser = argparse.ArgumentParser(prog="real_node", description="A real Kubernetes node.")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument("word", choices=COMMANDS)
    parser.add_argument("--folder", type=Path, default=cache / "strandline" / "node")
    parser.add_argument("--trial", action="store_true", help="try what a node must be able to do")
    return parser


def read_order(words: Sequence[str]) -> Order:
    """Read the order that the keeper passes as arguments."""
    folder, cluster, dns, pause, *command = words
    return Order(Path(folder), Binaries(Path(cluster), Path(dns), Path(pause)), command)


def report(text: str) -> None:
    """Print a message for the user on stderr, because stdout belongs to the command."""
    print(f"node: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except NodeError as error:
        report(str(error))
        sys.exit(BROKEN)
