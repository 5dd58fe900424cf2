"""Runs token networks in ONNX files, as exported from transformers by `optimum-cli export onnx`.

The module relies on their input (tokens) and output (numbers), and must not depend on the meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from strandline_packs.models.model_files import ModelError, find_model
from strandline_packs.models.onnx_sessions import SessionParams, describe_tensors, open_session
from strandline_packs.models.tokenizer_files import read_tokenizer
from strandline_packs.text.scoring.scoring_filter import ScoringFilter

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PACKAGES = ("numpy", "onnxruntime", "tokenizers")
# These parameters do not change scores.
NOT_FINGERPRINTED = frozenset({"batch", "batch_tokens", "device", "threads"})
# Number of digits that scores keep. Rounding errors, which depend on the other texts in a batch,
# only affect later digits.
DIGITS = 4

_IDS, _MASK, _KINDS = "input_ids", "attention_mask", "token_type_ids"
_OUTPUT = "logits"
_FLOATS = frozenset({"tensor(float)", "tensor(float16)"})
_AXES = 2  # texts, and their tokens or outputs
# Usual names of the padding token, for tokenizers that do not declare it.
_PADDING = ("[PAD]", "<pad>")


class NetworkParams(SessionParams, ScoringFilter.Params):
    """Configures the token network, and the preparation of texts."""

    tokenizer: str | None = Field(
        default=None,
        min_length=1,
        description="File or URL of the `tokenizer.json` of a network that takes tokens. The "
        "file's content is part of the fingerprint.",
    )
    max_tokens: int = Field(
        default=512,
        ge=1,
        description="Maximum number of tokens of a text, including those that the tokenizer adds "
        "around it; the rest is cut off.",
    )
    pad_token: str | None = Field(
        default=None,
        min_length=1,
        description="Token that pads shorter texts of a batch; by default the tokenizer's own "
        "padding token, or its `[PAD]` or `<pad>`.",
    )
    batch: int = Field(
        default=32,
        ge=1,
        description="Maximum number of texts of one call of a network; the texts of a task are "
        "batched by their number of tokens.",
    )
    batch_tokens: int = Field(
        default=512,
        ge=1,
        description="Maximum number of tokens of one call, including padding; a longer text has "
        "its own call. GPUs are faster with larger values, which need more memory.",
    )
    max_characters: int | None = Field(
        default=None,
        ge=1,
        description="Number of characters of a text that are used; by default all.",
    )

    def list_places(self) -> Iterable[tuple[str, str]]:
        """Return the locations of the model and its tokenizer."""
        own = [] if self.tokenizer is None else [("tokenizer", self.tokenizer)]
        return [*super().list_places(), *own]


class TokenisedText(NamedTuple):
    """Token ids of a text, and their type ids."""

    ids: list[int]
    kinds: list[int]


class TokenNetwork:
    """A loaded network that computes numbers for texts.

    Attributes:
        width: number of outputs for each text.

    Raises:
        ImportError: the library of the network is not installed.
        ModelError: the network has another input or output, or its tokenizer has no padding token.
        ValueError: the tokenizer can't be read.
    """

    def __init__(self, params: NetworkParams, model: Path, tokenizer: Path) -> None:
        self._params = params
        self._session = open_session(model, params.model, params)
        self._inputs = self._read_inputs()
        self._output = self._find_output()
        self._tokenizer = read_tokenizer(str(tokenizer))
        self._padding = find_padding(self._tokenizer, params)
        self._cut_texts()
        self.width = self._warm_up()

    def run(self, texts: Sequence[str]) -> list[list[float] | None]:
        """Return the outputs for each text, or None for a text without tokens.

        Texts of similar length share a batch. Shorter texts are padded on the right and masked.

        Raises:
            ModelError: an output is NaN or infinite.
        """
        tokenised = [self._tokenise(text) for text in texts]
        lengths = [len(text.ids) for text in tokenised]
        found: list[list[float] | None] = [None] * len(texts)
        for batch in list_batches(lengths, self._params.batch, self._params.batch_tokens):
            numbers = self._run_batch([tokenised[at] for at in batch])
            for at, row in zip(batch, numbers.tolist(), strict=True):
                found[at] = row
        return found

    def _run_batch(self, texts: Sequence[TokenisedText]) -> Any:  # noqa: ANN401 - an array
        np = import_module("numpy")
        given = pad_right(texts, self._padding)
        (answer,) = self._session.run([self._output], {name: given[name] for name in self._inputs})
        numbers = answer.astype("float64")
        if not np.isfinite(numbers).all():
            msg = f"{self._params.model}: the network returned a value that is not a number"
            raise ModelError(msg)
        return numbers

    def _tokenise(self, text: str) -> TokenisedText:
        encoding = self._tokenizer.encode(text)
        return TokenisedText(encoding.ids, encoding.type_ids)

    def _read_inputs(self) -> list[str]:
        inputs, name = self._session.get_inputs(), self._params.model
        names = {each.name for each in inputs}
        is_known = {_IDS, _MASK} <= names <= {_IDS, _MASK, _KINDS}
        given = describe_tensors(inputs)
        kinds = {(each.type, len(each.shape)) for each in inputs}
        if not is_known or kinds != {("tensor(int64)", _AXES)}:
            msg = (
                f"{name}: the network must take {_IDS}, {_MASK} and optionally {_KINDS}, each "
                f"texts × tokens of int64, but it takes {given}"
            )
            raise ModelError(msg)
        if any(isinstance(side, int) for each in inputs for side in each.shape):
            msg = (
                f"{name}: the network must take texts of any size, but it takes {given}; export it "
                "with dynamic axes"
            )
            raise ModelError(msg)
        return [each.name for each in inputs]

    def _find_output(self) -> str:
        outputs = self._session.get_outputs()
        found = [each for each in outputs if each.name == _OUTPUT] or outputs
        if len(found) != 1 or found[0].type not in _FLOATS:
            raise ModelError(self._describe_outputs())
        return str(found[0].name)

    def _describe_outputs(self) -> str:
        given = describe_tensors(self._session.get_outputs())
        return (
            f"{self._params.model}: the network must return `{_OUTPUT}`, texts × numbers, but it "
            f"returns {given}"
        )

    def _cut_texts(self) -> None:
        most = self._params.max_tokens
        around = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        if most <= around:
            msg = (
                f"`maxTokens` is {most}, but the tokenizer already adds {around} tokens around a "
                "text"
            )
            raise ModelError(msg)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(most)

    def _warm_up(self) -> int:
        """Run the network on a text of maximal length, and return the number of outputs.

        The first call is the slowest, and a network with fewer positions fails here.
        """
        # A word yields at least a token, so the text reaches the limit.
        longest = self._tokenise("the " * self._params.max_tokens)
        try:
            numbers = self._run_batch([longest])
        except ModelError:
            raise
        # ONNX Runtime has many error classes without a common base.
        except Exception as error:
            msg = (
                f"{self._params.model}: it failed on {len(longest.ids)} tokens; if this exceeds "
                f"the model's limit, lower `maxTokens` ({' '.join(str(error).split())})"
            )
            raise ModelError(msg) from error
        if numbers.ndim != _AXES or len(numbers) != 1:
            raise ModelError(self._describe_outputs())
        return int(numbers.shape[1])


def find_files(params: NetworkParams, tokenizer: str) -> tuple[Path, Path]:
    """Return the paths of a network and its tokenizer, after downloading URLs.

    Raises:
        ModelError: a file is missing, or has changed since planning.
        OSError: a file can't be read, or the copy can't be written.
    """
    digests = params.digests
    return (
        find_model(params.model, digests["model"], ".onnx"),
        find_model(tokenizer, digests["tokenizer"], ".json"),
    )


def find_padding(tokenizer: Tokenizer, params: NetworkParams) -> int:
    """Return the id of the padding token.

    Raises:
        ModelError: the tokenizer has no padding token.
    """
    if params.pad_token is None and tokenizer.padding:
        return int(tokenizer.padding["pad_id"])
    names = _PADDING if params.pad_token is None else (params.pad_token,)
    for number in map(tokenizer.token_to_id, names):
        if number is not None:
            return int(number)
    msg = (
        f"{params.tokenizer}: the tokenizer has no token {' or '.join(names)} to pad texts with; "
        "set `padToken` to one of its tokens"
    )
    raise ModelError(msg)


def list_batches(lengths: Sequence[int], texts: int, tokens: int) -> Iterator[list[int]]:
    """Yield the positions of texts for each batch, the shortest first. Empty texts are skipped.

    Args:
        lengths: lengths in tokens.
        texts: maximum number of texts in a batch.
        tokens: maximum number of tokens in a batch of several texts, including padding.
    """
    batch: list[int] = []
    for at in sorted(range(len(lengths)), key=lambda at: lengths[at]):
        # Texts come in ascending order, so this text would be the longest of the batch.
        if batch and (len(batch) == texts or (len(batch) + 1) * lengths[at] > tokens):
            yield batch
            batch = []
        if lengths[at]:
            batch.append(at)
    if batch:
        yield batch


def pad_right(texts: Sequence[TokenisedText], padding: int) -> dict[str, Any]:
    """Return the inputs of a network by name: rows of int64, padded to the longest text."""
    np = import_module("numpy")
    shape = len(texts), max(len(text.ids) for text in texts)
    ids = np.full(shape, padding, "int64")
    mask, kinds = np.zeros(shape, "int64"), np.zeros(shape, "int64")
    for row, text in enumerate(texts):
        length = len(text.ids)
        ids[row, :length], kinds[row, :length], mask[row, :length] = text.ids, text.kinds, 1
    return {_IDS: ids, _MASK: mask, _KINDS: kinds}
