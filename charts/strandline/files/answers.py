"""Asks the operator's pages, and ends with 1 where one of them does not answer well."""

import sys
import time
import urllib.request

PATIENCE = 60.0
WANTED = {"healthz": "queue_lag_seconds", "metrics": "strandline_queue_depth"}


def ask(address: str) -> str:
    """What is wrong with a page; empty where nothing is."""
    word = WANTED[address.rpartition("/")[2]]
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310 - our own pages
            text = answer.read().decode()
    except OSError as error:
        return f"{address}: {error}"
    return "" if word in text else f"{address}: the answer has no {word}"


def main(addresses: list[str]) -> int:
    """Ask each page until it answers well, but not without end."""
    end = time.monotonic() + PATIENCE
    while True:
        problems = [problem for problem in map(ask, addresses) if problem]
        if not problems or time.monotonic() > end:
            break
        time.sleep(1.0)
    sys.stdout.write("\n".join(problems or ["all pages answer"]) + "\n")
    return 1 if problems else 0


sys.exit(main(sys.argv[1:]))
