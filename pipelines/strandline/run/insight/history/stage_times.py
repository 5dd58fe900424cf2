"""The seconds that each stage takes for a source, by what attempts have measured.

It must not know what is made of them.
"""

from __future__ import annotations

from collections import Counter

from strandline.run.insight.history.records import read_chain
from strandline.run.insight.history.samples import count_done, read_samples
from strandline.storage.layout import PipelineFolder


def measure_stages(folder: PipelineFolder) -> dict[str, float]:
    """Return the seconds of its own work that a stage takes for a source, by its name.

    Only attempts count in which it had something to do; several sources may share a task.
    """
    seconds: dict[str, float] = {}
    sources = Counter[str]()
    for record in read_chain(folder):
        samples = read_samples(folder, record.number)
        if samples is None:
            continue
        for name, counts in samples.counts.items():
            if counts.tasks_in:
                seconds[name] = seconds.get(name, 0.0) + counts.seconds
                sources[name] += count_done(record, samples)
    return {name: seconds[name] / number for name, number in sources.items() if number}
