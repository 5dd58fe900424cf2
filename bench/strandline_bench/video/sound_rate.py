"""Compares audio stages with a plain loop: seconds of sound, and clips, per second of a core.

Also measures the error rate of transcripts of generated speech.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import av
import numpy as np
import onnxruntime
import pyarrow as pa

from strandline.data.files.globs import expand_placeholder
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_bench.ground.folders import EXAMPLES
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, format_number, reach
from strandline_packs.audio.decode_audio import DecodeAudio
from strandline_packs.audio.measure_audio import MeasureAudio
from strandline_packs.audio.split_speech import SplitSpeech
from strandline_packs.audio.transcode_audio import TranscodeAudio
from strandline_packs.audio.transcribe import Transcribe

KEEPS = 0.7  # share of the plain loop's rate
RATE, WINDOW, CONTEXT = 16_000, 512, 64


def measure_audio(scale: Scale) -> list[Row]:
    """Split one recording with a plain loop and with `split-speech`, in turns, then go on."""
    sys.path.append(str(EXAMPLES))
    import make_speech  # noqa: PLC0415 - lies elsewhere

    times, turns = scale.pick(20, 1), scale.pick(5, 1)
    wave = np.tile(make_speech.join_sentences(make_speech.SENTENCES), times)
    path = make_speech.write_sound(scale.folder / "bench.flac", wave)
    length = len(wave) / make_speech.RATE
    (clips,) = _run(SplitSpeech(clips_per_task=1 << 20), _name(path))
    works: dict[str, Callable[[], object]] = {
        "PyAV and silero-vad in a loop": lambda: _split_plainly(path),
        "split-speech": lambda: _run(SplitSpeech(), _name(path)),
        "decode-audio": lambda: _run(DecodeAudio(), _name(path)),
        "measure-audio": lambda: _run(MeasureAudio(), clips),
        "transcode-audio to FLAC": lambda: _run(TranscodeAudio(), clips),
    }
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(turns):
        for name, work in works.items():
            seconds[name].append(_time(work))
    rates = {name: length / median(each) for name, each in seconds.items()}
    what = (
        f"{length:,.0f} s of speech, {clips.num_rows} clips, seconds of sound per second of a core"
    )
    plain, ours = rates["PyAV and silero-vad in a loop"], rates["split-speech"]
    return [
        *(Row(f"{what}: {name}", format_number(rate, "/s")) for name, rate in rates.items()),
        Row("the same, clips of split-speech", format_number(clips.num_rows * ours / length, "/s")),
        reach("split-speech, of the loop's rate", ours / plain, KEEPS, "×"),
        *_measure_words(make_speech.SENTENCES, clips.slice(0, len(make_speech.SENTENCES))),
    ]


def _measure_words(sentences: Sequence[str], clips: pa.Table) -> list[Row]:
    start = time.process_time()
    (table,) = _run(Transcribe(), clips)
    spent = time.process_time() - start
    words = " ".join(table["text"].to_pylist()).split()
    meant = " ".join(sentences).split()
    length = sum(clips["duration"].to_pylist())
    what = f"transcribe with PocketSphinx, {len(meant)} words of eSpeak NG"
    rate = count_word_errors(meant, words) / len(meant)
    return [
        Row(f"{what}: word error rate", format_number(100 * rate, "%")),
        Row(f"{what}: seconds of sound per second of a core", format_number(length / spent, "/s")),
    ]


def count_word_errors(meant: Sequence[str], words: Sequence[str]) -> int:
    """Return the least number of words to insert, delete, or replace."""
    costs = list(range(len(words) + 1))
    for number, word in enumerate(meant, 1):
        diagonal, costs[0] = costs[0], number
        for at, other in enumerate(words, 1):
            least = min(costs[at] + 1, costs[at - 1] + 1, diagonal + (word != other))
            diagonal, costs[at] = costs[at], least
    return costs[-1]


def _name(path: Path) -> pa.Table:
    return pa.table({"key": [path.name], "path": [str(path)]})


def _run(stage: Stage, table: pa.Table) -> list[pa.Table]:
    stage.setup()
    answer: Any = stage.process(Task(table))
    tasks = [answer] if isinstance(answer, Task) else list(answer)
    return [task.table for task in tasks]


def _split_plainly(path: Path) -> list[Any]:
    """Decode the whole file, run the model on each window, and cut at pauses of 0.3 seconds."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = expand_placeholder(SplitSpeech().params.model)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    resampler = av.AudioResampler("flt", "mono", RATE)
    with av.open(str(path)) as container:
        container.streams.audio[0].codec_context.thread_count = 1
        frames = [each for frame in container.decode(audio=0) for each in resampler.resample(frame)]
        frames += resampler.resample(None)
    samples = np.concatenate(
        [np.zeros(CONTEXT, "float32"), *(each.to_ndarray()[0] for each in frames)]
    )
    state, rate = np.zeros((2, 1, 128), "float32"), np.array(RATE, "int64")
    clips, begin, end = [], None, 0
    for at in range(0, len(samples) - CONTEXT - WINDOW, WINDOW):
        window = samples[None, at : at + CONTEXT + WINDOW]
        answer, state = session.run(None, {"input": window, "state": state, "sr": rate})
        if answer[0, 0] >= 0.5:
            begin, end = at if begin is None else begin, at + WINDOW
        elif begin is not None and at - end > 0.3 * RATE:
            clips.append(samples[begin:end])
            begin = None
    return clips


def _time(work: Callable[[], object]) -> float:
    """Return the CPU seconds of a call, because other processes hardly influence CPU time."""
    start = time.process_time()
    work()
    return time.process_time() - start
