"""Runs the last release's parsers from the repository's history, in a separate process.

The process answers requests line by line; see `release_reader.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from images.history import LAST_RELEASE, NoHistoryError, need_sources

ROOT = Path(__file__).parents[2]
READER = Path(__file__).parent / "release_reader.py"
PLACES = ("crds", "pipelines/strandline")


@dataclass(frozen=True, slots=True)
class LastRelease:
    """The last release, which parses documents on request.

    Attributes:
        definitions: CRDs of the last release, by plural.
    """

    definitions: dict[str, dict[str, Any]] = field(repr=False)
    _process: subprocess.Popen[str]

    def ask(self, what: str, given: object) -> Any:
        """Send a request and return the JSON answer.

        Raises:
            AssertionError: if the release reported an error. The message contains the error.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps([what, given]) + "\n")
        stdin.flush()
        answer = json.loads(stdout.readline())
        assert "error" not in answer, f"the last release: {answer['error']}"
        return answer["answer"]


@contextmanager
def reading(folder: Path) -> Iterator[LastRelease]:
    """Run the last release until the block ends. Its sources are unpacked into the folder.

    Without the git history, the test is skipped; in CI, it fails.
    """
    try:
        sources = need_sources(ROOT, LAST_RELEASE, folder, PLACES)
    except NoHistoryError as error:
        said = f"NO HISTORY, so nothing was tried with the last release: {error}"
        if os.environ.get("CI"):
            pytest.fail(said)
        pytest.skip(said)
    definitions = {
        plural: yaml.safe_load((sources / "crds" / f"strandline.dev_{plural}.yaml").read_text())
        for plural in ("curationpipelines", "curationattempts")
    }
    places = (sources / "crds", sources / "pipelines", ROOT / "pipelines" / "examples")
    path = os.pathsep.join(map(str, places))
    with subprocess.Popen(
        [sys.executable, "-P", str(READER), str(sources)],
        env=os.environ | {"PYTHONPATH": path},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        yield LastRelease(definitions, process)
        process.terminate()
