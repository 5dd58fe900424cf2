"""Sends the same requests through each product: a prompt and a response per row.

`python -m strandline_bench.asking.programs NAME URL COUNT AT_ONCE FOLDER` prints the number of good
responses. Each program follows the product's documentation and imports only that product.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import fsspec

PROMPT = "Rate this text from 0 to 5: number {{ n }}"
MODEL = "quick"
_GOOD = "stop"
# Ray Data's default batch size; smaller if there are too few rows for all parallel batches.
_BATCH, _TURNS = 64, 4


class Asking(NamedTuple):
    """Parameters of the requests.

    Attributes:
        url: URL of the server, without `/v1`.
        requests: number of requests.
        at_once: maximum number of concurrent requests.
        folder: folder for output files.
    """

    url: str
    requests: int
    at_once: int
    folder: Path


def build_messages(number: int) -> list[dict[str, str]]:
    """Return the chat messages for a row."""
    return [{"role": "user", "content": PROMPT.replace("{{ n }}", str(number))}]


def run_datatrove(asking: Asking, *, has_checkpoints: bool = False) -> int:
    """Run datatrove's InferenceRunner on an existing endpoint, one request per rollout."""
    from datatrove.data import Document  # noqa: PLC0415 - each program loads its own
    from datatrove.pipeline.inference.run_inference import (  # noqa: PLC0415 - see above
        InferenceConfig,
        InferenceRunner,
    )
    from datatrove.pipeline.writers import JsonlWriter  # noqa: PLC0415 - see above

    async def rollout(document: Any, generate: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - its types
        return await generate({"messages": build_messages(int(document.id))})

    def list_documents() -> Iterator[Any]:
        for number in range(asking.requests):
            yield Document(text="", id=str(number))

    config = InferenceConfig(
        server_type="endpoint",
        model_name_or_path=MODEL,
        endpoint_url=asking.url,
        max_concurrent_generations=asking.at_once,
    )
    answers = asking.folder / "answers"
    writer = JsonlWriter(str(answers), output_filename="${rank}_${chunk_index}.jsonl.gz")
    kept = str(asking.folder / "checkpoints") if has_checkpoints else None
    runner = InferenceRunner(rollout, config, writer, checkpoints_local_dir=kept)
    runner.run(list_documents())
    found = 0
    for path in answers.iterdir():
        with fsspec.open(str(path), "rt", compression="gzip") as file:
            results = [json.loads(line)["metadata"]["rollout_results"] for line in file]
        found += sum(_is_good(result) for each in results for result in each)
    return found


def run_datatrove_with_checkpoints(asking: Asking) -> int:
    """Run datatrove's InferenceRunner with checkpoints, which record finished requests."""
    return run_datatrove(asking, has_checkpoints=True)


def run_ray_data(asking: Asking) -> int:
    """Run the HTTP processor of `ray.data.llm` with one worker and several parallel batches."""
    # Ray Data sends the requests of a batch one after another, so the number of parallel batches
    # sets the concurrency.
    os.environ["RAY_DATA_DEFAULT_ASYNC_BATCH_UDF_MAX_CONCURRENCY"] = str(asking.at_once)
    import ray  # noqa: PLC0415 - each program loads its own
    from ray.data.llm import HttpRequestProcessorConfig, build_processor  # noqa: PLC0415 - see above

    from strandline_bench.ground.local_ray import started_ray  # noqa: PLC0415 - see above

    config = HttpRequestProcessorConfig(
        url=f"{asking.url}/v1/chat/completions",
        batch_size=max(1, min(_BATCH, asking.requests // (_TURNS * asking.at_once))),
    )
    # Ray's socket paths are limited to about a hundred characters.
    with TemporaryDirectory(prefix="ray-") as folder, started_ray(Path(folder)):
        processor = build_processor(
            config,
            preprocess=lambda row: {
                "payload": {"model": MODEL, "messages": build_messages(row["id"])}
            },
            postprocess=lambda row: {"is_good": _is_good(row["http_response"]["choices"][0])},
        )
        rows = processor(ray.data.range(asking.requests, override_num_blocks=1))
        return sum(int(batch["is_good"].sum()) for batch in rows.iter_batches(batch_size=None))


def _is_good(choice: dict[str, Any]) -> bool:
    return bool(choice["finish_reason"] == _GOOD)


class Program(NamedTuple):
    """A product's program that sends the requests.

    Attributes:
        title: name of the product in the table.
        package: package whose version is printed.
        needs: required modules.
        run: function that sends the requests and returns the number of good responses.
    """

    title: str
    package: str
    needs: tuple[str, ...]
    run: Callable[[Asking], int]


PROGRAMS = {
    "datatrove": Program(
        "InferenceRunner", "datatrove", ("datatrove", "aiofiles", "orjson"), run_datatrove
    ),
    "datatrove-kept": Program(
        "InferenceRunner with checkpoints",
        "datatrove",
        ("datatrove", "aiofiles", "aiosqlite", "orjson"),
        run_datatrove_with_checkpoints,
    ),
    "ray-data": Program("`HttpRequestProcessorConfig`", "ray", ("ray", "aiohttp"), run_ray_data),
}

if __name__ == "__main__":
    from strandline_bench.asking.programs import PROGRAMS as BY_NAME
    from strandline_bench.asking.programs import Asking as Wanted

    given = Wanted(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
    sys.stdout.write(f"{BY_NAME[sys.argv[1]].run(given)}\n")
