"""`use: nemo_curator:WordCountFilter`: runs a filter, modifier, or CPU stage of NeMo Curator.

The class comes from the installed package. The module relies on the common interfaces of classes.
"""

from __future__ import annotations

import importlib
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar, get_args

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import keep_rows, list_strings, map_strings, set_column
from strandline.plan.packages import explain_import
from strandline.plan.stages.registry import UnknownStageError
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.text.filters.adapters.brought_params import BroughtParams, check_signature
from strandline_packs.text.filters.adapters.brought_stage import BroughtStage, create_class

PACKAGE = "nemo_curator"
_LIBRARY = "NeMo Curator"
# The last is searched only to report that a class needs a GPU.
_ROOMS = (
    *("filters.heuristic", "filters.heuristic.repetition", "filters.heuristic.code"),
    *("filters.fasttext", "filters.histogram", "filters.token"),
    *("modifiers.string", "modifiers.unicode", "modifiers.fasttext", "modules"),
    "classifiers",
)
_REJECTED = {
    "FastTextQualityFilter": "draws random numbers, so a repeated source would keep other rows",
}
_STAGE_SETUP = ("setup_on_node", "setup")
_FILTER_SETUP = ("model_check_or_download", "load_model", "load_tokenizer")


class NemoCuratorStage(BroughtStage):
    """Runs a filter, a modifier, or a stage of NeMo Curator that needs no GPU.

    A filter drops rows, and a modifier changes the text. A stage takes a table and returns one.
    """

    class Params(BroughtParams):
        """Also accepts the class's own parameters, by their names or in camelCase."""

        column: str = Field(default="text", description="Column with the text; not for stages.")
        score_column: str | None = Field(
            default=None, description="Column for the scores of a filter; by default none."
        )

    params: Params
    packages: ClassVar[tuple[str, ...]] = (PACKAGE,)

    def list_needed_columns(self) -> tuple[str, ...]:
        if find_spec(PACKAGE) is None or not _is_stage(find_class(self.step_name)):
            return (self.params.column,)
        needs = self._create_steps()[0].inputs()
        # Stages that accept several kinds of input return a dictionary.
        return tuple(needs[1]) if isinstance(needs, tuple) else ()

    def setup(self) -> None:
        """Create the object, and fetch and load its model."""
        self._steps = self._create_steps()
        for step in self._steps:
            for name in _STAGE_SETUP if _is_stage(step) else _FILTER_SETUP:
                getattr(step, name, lambda: None)()

    def process(self, task: Task) -> Task | None:
        """Run the filter, modifier, or stage on the rows, and count dropped rows."""
        step = self._steps[0]
        if _is_stage(step):
            return self._run(task) if task.table.num_rows else task
        if hasattr(step, "score_document"):
            return self._filter(task, step)
        return task.replace(map_strings(task.table, self.params.column, step.modify_document))

    def _create_steps(self) -> list[Any]:
        return _create_steps(find_class(self.step_name), self.params)

    def _filter(self, task: Task, step: Any) -> Task | None:  # noqa: ANN401 - an object of NeMo Curator's
        table, column = task.table, self.params.score_column
        scores = [step.score_document(text) for text in list_strings(table, self.params.column)]
        mask = [bool(step.keep_document(score)) for score in scores]
        if dropped := mask.count(False):
            self.count(f"dropped: {step.name}", dropped)
        if column is not None:
            array = pa.array(scores)
            # Some filters return 0 or 1 for some texts, and fractions for others.
            kind = pa.float64() if pa.types.is_integer(array.type) else array.type
            table = set_column(table, column, array.cast(kind), kind)
        return keep_rows(task, table, mask)

    def _run(self, task: Task) -> Task | None:
        batches = [_create_batch(task)]
        for step in self._steps:
            answers = step.process_batch(batches)
            batches = [each for each in answers if each is not None and each.num_items]
        tables = [_read_batch(batch, task.table.schema) for batch in batches]
        dropped = task.table.num_rows - sum(each.num_rows for each in tables)
        if dropped > 0:
            self.count(f"dropped: {self.step_name}", dropped)
        return task.replace(pa.concat_tables(tables)) if tables else None


def adapt_class(name: str) -> type[Stage]:
    """Create a stage class for a filter, modifier, or stage.

    Without NeMo Curator, the name is not checked: a later check reports the missing package.

    Raises:
        UnknownStageError: NeMo Curator has no such class, or the class can't be imported.
    """
    found = find_class(name) if find_spec(PACKAGE) is not None else None
    check = partial(_check_params, found)
    adapted = create_class(NemoCuratorStage, f"{_LIBRARY}'s {name}", adapt_class, name, check)
    adapted.mixes_rows = _is_stage(found)
    return adapted


def find_class(name: str) -> Any:  # noqa: ANN401 - a class of NeMo Curator's
    """Return a class by its name, or by its path below `nemo_curator.stages`.

    Raises:
        UnknownStageError: NeMo Curator has no such class, or the class can't be imported.
    """
    room, _, leaf = name.rpartition(".")
    known: list[str] = []
    problems = ""
    for each in [room] if room else [f"text.{each}" for each in _ROOMS]:
        try:
            module = importlib.import_module(f"{PACKAGE}.stages.{each}")
            found = getattr(module, leaf, None)
        except ImportError as error:
            if not (error.name or "").startswith(PACKAGE):
                problems += f"; {each} can't be imported: {explain_import(error)}"
            continue
        if isinstance(found, type) and _is_supported(found):
            return found
        known += getattr(module, "__all__", ())
    raise UnknownStageError(
        f"'{PACKAGE}:{name}': {_LIBRARY} has no such filter, modifier, or stage from DocumentBatch "
        f"to DocumentBatch{problems}; supported names: {', '.join(known)}"
    )


def _is_supported(found: type) -> bool:
    if hasattr(found, "score_document") or hasattr(found, "modify_document"):
        return True
    bases = (base for each in found.__mro__ for base in vars(each).get("__orig_bases__", ()))
    kinds = ([getattr(kind, "__name__", "") for kind in get_args(base)] for base in bases)
    return _is_stage(found) and ["DocumentBatch", "DocumentBatch"] in kinds


def _is_stage(found: Any) -> bool:  # noqa: ANN401 - a class or an object of NeMo Curator's
    return hasattr(found, "process_batch")


def _check_params(found: Any, params: NemoCuratorStage.Params) -> None:  # noqa: ANN401 - see above
    if found is None:
        return
    title = f"{_LIBRARY}'s {found.__name__}"
    if found.__name__ in _REJECTED:
        raise ValueError(f"{title} {_REJECTED[found.__name__]}")
    check_signature(_LIBRARY, found, params.values)
    if params.score_column and not hasattr(found, "score_document"):
        raise ValueError(f"{title} is not a filter, so it has no `scoreColumn`")
    if _is_stage(found) and params.column != "text":
        raise ValueError(f"{title} has no `column`; name columns by its own parameters")
    steps = _create_steps(found, params) if _is_stage(found) else []
    if any(step.resources.requires_gpu for step in steps):
        raise ValueError(f"{title} needs a GPU; only CPU stages run as stages of Strandline")


def _create_steps(found: Any, params: NemoCuratorStage.Params) -> list[Any]:  # noqa: ANN401 - see above
    step = found(**params.values)
    return list(step.decompose()) if hasattr(step, "decompose") else [step]


def _create_batch(task: Task) -> Any:  # noqa: ANN401 - an object of NeMo Curator's
    batch = importlib.import_module("nemo_curator.tasks").DocumentBatch(task.key, task.table)
    # NeMo Curator builds ids of rows from this id, which must differ between tasks.
    batch.task_id = task.lineage.token.hex() if task.lineage else ""
    batch.data = frame = batch.to_pandas()
    for name, column in zip(task.table.column_names, task.table.columns, strict=True):
        if column.null_count and pa.types.is_integer(column.type):
            # Otherwise pandas would round large integers.
            frame[name] = column.to_pandas(integer_object_nulls=True)
    return batch


def _read_batch(batch: Any, schema: pa.Schema) -> pa.Table:  # noqa: ANN401 - see above
    """Return a table without pandas' index. Columns of the input keep their types."""
    frame, kinds = batch.to_pandas(), {field.name: field.type for field in schema}
    return pa.table(
        {name: pa.array(frame[name], kinds.get(name), from_pandas=True) for name in frame.columns}
    )
