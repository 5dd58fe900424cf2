"""Pipelines built in Python: the plan and the attempt are the same as from a manifest."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ValidationError
from pydantic.alias_generators import to_snake

from strandline.ledger.access.lease import OnChange
from strandline.ledger.access.session import LedgerSession
from strandline.plan.errors import Advice, StrandlineError
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan, plan_stage
from strandline.plan.stages.registry import find_name
from strandline.plan.stages.stage import Stage
from strandline.python.interruption import interruptible
from strandline.python.outcome import Outcome, make_outcome
from strandline.python.progress import displaying
from strandline.python.results import PipelineResults
from strandline.python.stored_manifest import write_manifest
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.engines import ENGINES, works_in_driver
from strandline.run.attempt.outcome import AttemptResult
from strandline.run.code.stage_code import fingerprint_code
from strandline.run.manifest.manifest import read_manifest
from strandline.run.revise.cuts.auto_cuts import CutSettings
from strandline.storage.layout import PipelineFolder, require_folder
from strandline_api.documents.problems import Problem, SpecError
from strandline_api.documents.validation import problems_of
from strandline_api.notation.quantities import parse_memory
from strandline_api.objects.pipeline import ObjectMeta
from strandline_api.objects.removed_engine import ENGINE_REMOVED, REMOVED_ENGINE
from strandline_api.spec.policy import Checkpoint, Quarantine
from strandline_api.spec.publishing import Publishing
from strandline_api.spec.work import StageWork, default_name


class Pipeline(PipelineResults):
    """A source, stages and a sink, combined under a name.

    Args:
        name: lowercase letters, digits, '-' and '.'. Namespace and name determine the pipeline's
            folder below a checkpoint path.
        source: a `SourceStage`; source, stages and sink may each be a result of `work`.
        stages: processing of each source, in this order.
        sink: a `SinkStage`.
        namespace: a lowercase label.

    Attributes:
        plan: the checked pipeline.
        on_change: an `OnChange`, the behaviour of `run` if a different pipeline wrote the ledger;
            initially `FAIL`.
        engine: default engine of `run`: `ray` (initially), `processes` or `inline`.
        quarantine: a `Quarantine`, the limit after which a failing source is left out.
        checkpoint: a `Checkpoint`, the frequency of publications.
        publishing: a `Publishing`, the requirements and the target of publications from a file;
            None if there are no requirements.
        keep, keep_at_most: `auto`, and a size such as "200Gi"; see `keep` and `keepAtMost` in
            docs/api.md. None: only stages with `keep` keep outputs.

    Raises:
        SpecError: (a ValueError) the pipeline can't be run or can't be resumed; the message has a
            line for each reason.
    """

    def __init__(
        self,
        name: str,
        *,
        source: Stage | StagePlan,
        stages: Sequence[Stage | StagePlan] = (),
        sink: Stage | StagePlan,
        namespace: str = "default",
    ) -> None:
        try:
            self._metadata = ObjectMeta(name=name, namespace=namespace)
        except ValidationError as error:
            raise SpecError(problems_of(error, ObjectMeta, "")) from None
        first, *rest = map(_wrap, (source, *stages, sink))
        self.plan: PipelinePlan = check_plan(namespace, name, first, rest)
        self.on_change = OnChange.FAIL
        self.engine = "ray"
        self.quarantine = Quarantine()
        self.checkpoint = Checkpoint()
        self.publishing: Publishing | None = None
        self.keep: Literal["auto"] | None = None
        self.keep_at_most: str | None = None

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Read the pipeline of a file.

        `run` makes one attempt; the file's settings for further attempts (`retry`, `deadlines`)
        apply only to `strandline run`.

        Args:
            path: a YAML file with one `CurationPipeline`.

        Raises:
            SpecError: the file is missing or invalid; the message has a line for each reason.
        """
        manifest = read_manifest(Path(path))
        pipeline = cls.__new__(cls)
        pipeline.plan, spec = manifest.plan, manifest.pipeline.spec
        pipeline._metadata = manifest.pipeline.metadata  # noqa: SLF001 - attribute of this class
        pipeline.on_change = OnChange(spec.on_change)
        pipeline.engine = spec.engine
        pipeline.quarantine = spec.quarantine
        pipeline.checkpoint = spec.checkpoint
        pipeline.publishing = spec.publish
        pipeline.keep = spec.keep
        pipeline.keep_at_most = None if spec.keep_at_most is None else str(spec.keep_at_most)
        return pipeline

    def run(
        self,
        checkpoint_path: str | os.PathLike[str] | None = None,
        *,
        engine: str | None = None,
        address: str | None = None,
        workers: int | None = None,
        on_change: OnChange | str | None = None,
        progress: bool | None = None,
    ) -> Outcome:
        """Make one attempt in this process, and skip sources that earlier attempts finished.

        After an interrupt (Ctrl-C, or a notebook's stop button), work in flight is finished and
        kept; a second interrupt ends the run immediately. In both cases everything that the run
        started has ended.

        Args:
            checkpoint_path: folder (a volume) for the ledger and, if the sink has no path, the
                output. None tracks nothing, and requires a sink with a path.
            engine: `ray`, `processes` or `inline`; None for the attribute of that name.
            address: address of a running Ray cluster, such as `auto` or `ray://head:10001`; None
                starts a local Ray instance.
            workers: CPUs of the local Ray instance; None for all.
            on_change: `Fail`, `Restart`, `Continue` or `Redo`, used if a different pipeline wrote
                the ledger; None for the attribute of that name.
            progress: whether to show progress. The default shows progress in a notebook, and in a
                terminal unless the engine is `inline`, which may run in a debugger.

        Returns:
            The outcome. Failed sources are reported by `code`, without an exception.

        Raises:
            SpecError, LedgerError, VolumeError and others of `strandline.errors`: the run could not
                start or continue; finished sources are kept.
            ValueError: an argument has an unknown value.
            KeyboardInterrupt: the run was interrupted.
        """
        engine = _check_engine(self.engine if engine is None else engine)
        volume = None if checkpoint_path is None else require_folder(checkpoint_path)
        change = self.on_change if on_change is None else OnChange(on_change)
        # Compute the fingerprint as late as possible: a notebook may redefine a function after
        # creating the pipeline that uses the function.
        self.plan = fingerprint_code(self.plan)
        config = AttemptConfig(
            self.plan,
            volume,
            engine,
            address,
            workers,
            change,
            quarantine=self.quarantine,
            checkpoint=self.checkpoint,
            publishing=self.publishing,
            deliver=self._plan_delivery(volume),
            cuts=self._read_cut_settings(),
        )
        return make_outcome(self._run(config, is_shown=progress), config)

    def _run(self, config: AttemptConfig, *, is_shown: bool | None) -> AttemptResult:
        """Run an attempt, and write the manifest of the pipeline into its folder."""
        is_tracked = config.volume is not None
        with _noting_advice():
            # A running pipeline should be found, and a refused one must not replace the former.
            if is_tracked and not config.folder.manifest.exists():
                self._write_manifest(config.folder)
            result = _run_shown(config, is_wanted=is_shown)
        if is_tracked:
            self._write_manifest(config.folder)
        return result

    def _plan_delivery(self, volume: Path | None) -> Callable[[LedgerSession], str] | None:
        if self.publishing is None or self.publishing.to is None:
            return None
        # A card needs the modules of reports, which most runs do not need.
        from strandline.cli.card.delivery import plan_delivery  # noqa: PLC0415
        from strandline.run.release.push.pushing import PushClock  # noqa: PLC0415

        clock = PushClock(time.time, time.sleep)
        return plan_delivery(self.plan, volume, self.publishing, self._metadata, clock)

    def _write_manifest(self, folder: PipelineFolder) -> None:
        settings: dict[str, Any] = {
            "engine": self.engine,
            "onChange": OnChange(self.on_change).value,
            "quarantine": self.quarantine.model_dump(mode="json", by_alias=True),
            "checkpoint": self.checkpoint.model_dump(mode="json", by_alias=True),
        }
        if self.keep is not None:
            settings |= {"keep": self.keep, "keepAtMost": self.keep_at_most}
        write_manifest(folder, self.plan, settings)

    def _read_cut_settings(self) -> CutSettings:
        if self.keep is not None and self.keep_at_most is None:
            msg = "keep 'auto' needs keep_at_most, such as '200Gi'"
            raise ValueError(msg)
        at_most = None if self.keep_at_most is None else parse_memory(self.keep_at_most)
        return CutSettings(self.keep is not None, at_most)


@contextmanager
def _noting_advice() -> Iterator[None]:
    """Add the recommended Python call to an error."""
    try:
        yield
    except StrandlineError as error:
        if note := _describe_call(error.advice):
            error.add_note(note)
        raise


def _describe_call(advice: Advice | None) -> str:
    """Return the recommended call, or an empty string if Python has no equivalent."""
    if advice is None or advice.command != "run" or advice.options:
        return ""
    words = [f"{to_snake(field)}={value!r}" for field, value in advice.settings]
    return f"for example: pipeline.run(..., {', '.join(words)})"


def work(  # noqa: PLR0913 - one argument for each setting
    stage: Stage,
    *,
    name: str | None = None,
    batch_size: int = 1,
    workers: tuple[int, int | None] = (1, None),
    cpu: float = 1.0,
    gpu: float = 0.0,
    memory: str | None = None,
    custom: dict[str, float] | None = None,
    group: int | None = None,
    runtime_env: dict[str, Any] | None = None,
    max_age: str | None = None,
    max_memory: str | None = None,
    timeout: str | None = None,
    isolate: bool = False,
    on_error: str = "fail",
    tolerate_rows: int | str | None = None,
    keep: bool = False,
) -> StagePlan:
    """Return a stage with settings, the same settings as in a manifest.

    Args:
        stage: an instance; workers get copies.
        name: name of the stage, unique in the pipeline; by default the registered name of the
            class, or the class name in kebab-case.
        batch_size: maximum number of tasks in one call of `process_batch`.
        workers: minimum and maximum number of workers; if the maximum is None, the engine chooses.
        cpu: cores of one worker; with 0.5, two workers share a core.
        gpu: GPUs of one worker; with 0.5, two workers share a GPU.
        memory: memory reserved for one worker, such as "2Gi"; None for no reservation.
        custom: other Ray resources of one worker, by name.
        group: number of a task's children that are joined into one task; None for no joining.
        runtime_env: Ray's runtime environment of the workers.
        max_age: maximum age of a worker, such as "1h"; None for no limit.
        max_memory: maximum memory of a worker, such as "4Gi"; None for no limit.
        timeout: maximum duration of one task, such as "10m"; None for no limit.
        isolate: whether the stage gets separate workers, even if neighbours have the same settings.
        on_error: see `onError` in docs/api.md.
        tolerate_rows: see `tolerateRows` in docs/api.md.
        keep: see `keep` in docs/api.md.

    Returns:
        A stage for `Pipeline`, as its source, among its stages, or as its sink.

    Raises:
        SpecError: (a ValueError) a value that is also invalid in a manifest.
    """
    use, (least, most) = _find_use(type(stage)), workers
    given = {
        "use": "checked-here",  # placeholder: a class defined in a function has no name
        "name": name or default_name(use),
        "batchSize": batch_size,
        "workers": {"min": least, "max": most, "maxAge": max_age, "maxMemory": max_memory},
        "resources": {"cpu": cpu, "gpu": gpu, "memory": memory, "custom": custom or {}},
        "runtimeEnv": runtime_env or {},
    }
    given |= {"group": group, "timeout": timeout, "isolate": isolate, "keep": keep}
    given |= {"onError": on_error, "tolerateRows": tolerate_rows}
    return plan_stage(_check_work(given, stage), stage, use)


def _check_work(given: dict[str, Any], stage: Stage) -> StageWork:
    try:
        return StageWork.model_validate(given)
    except ValidationError as error:
        raise SpecError(problems_of(error, StageWork, type(stage).__name__)) from None


def _check_engine(name: str) -> str:
    if name == REMOVED_ENGINE:
        raise ValueError(ENGINE_REMOVED)
    if name not in ENGINES:
        msg = f"engine must be one of {', '.join(ENGINES)}, not {name!r}"
        raise ValueError(msg)
    return name


def _run_shown(config: AttemptConfig, *, is_wanted: bool | None) -> AttemptResult:
    """Run an attempt with a display, and stop the attempt on an interrupt."""
    is_debugged = works_in_driver(config.engine)
    with (
        displaying(config.plan.name, is_wanted=is_wanted, is_debugged=is_debugged) as display,
        interruptible(display.announce) as is_asked,
    ):
        result = run_attempt(config, is_asked, display.report)
        display.end(result.message)
    return result


def _wrap(stage: object) -> StagePlan:
    if isinstance(stage, StagePlan):
        return stage
    if isinstance(stage, Stage):
        return work(stage)
    given = stage.__name__ if isinstance(stage, type) else type(stage).__name__
    hint = f"write {given}(...)" if isinstance(stage, type) else ""
    if callable(stage) and not isinstance(stage, type):
        hint = (
            "use a stage of `strandline.stages` that calls the function: `MapRows(function=...)` "
            "for a row, `MapTable(function=..., frame='pandas')` for a table, or "
            "`FilterRows(function=...)` to keep rows"
        )
    raise SpecError((Problem("", f"must be a stage, not {given}", hint),))


def _find_use(stage_class: type[Stage]) -> str:
    """Return the registered name of a class, so that Python and YAML give the same fingerprint."""
    return find_name(stage_class) or f"{stage_class.__module__}:{stage_class.__qualname__}"
