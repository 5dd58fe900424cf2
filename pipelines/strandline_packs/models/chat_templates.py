"""Renders conversations as text, with the Jinja template of the model's tokenizer.

The result records which characters belong to which message. The module must not depend on tokens,
or which of them are learned.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from strandline.data.files.opening import open_binary

Messages = Sequence[Mapping[str, Any]]
_NAMES = ("bos_token", "eos_token", "pad_token", "unk_token")


class ChatError(ValueError):
    """Raised if a conversation can't be rendered, or if its text can't be split into messages."""


class RenderedChat(NamedTuple):
    """A conversation as text.

    Attributes:
        text: the complete text.
        spans: start and end of each message of the requested roles, in characters.
    """

    text: str
    spans: list[tuple[int, int]]


class ChatTemplate:
    """A template in a sandbox, without access to anything except its arguments.

    Args:
        source: Jinja source.
        names: special tokens by name, such as `eos_token`.

    Raises:
        ChatError: the source is not a valid template.
    """

    def __init__(self, source: str, names: Mapping[str, str]) -> None:
        sandbox = import_module("jinja2.sandbox")
        # Same settings, filters, and functions as in `transformers`, for which templates are
        # written.
        environment = sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _format_json
        environment.globals["raise_exception"] = _refuse
        self._names = names
        self._errors = import_module("jinja2.exceptions")
        try:
            self._template = environment.from_string(source)
        except self._errors.TemplateSyntaxError as error:
            msg = f"the chat template has an error in line {error.lineno}: {error.message}"
            raise ChatError(msg) from error

    def render(self, messages: Messages, roles: Collection[str]) -> RenderedChat:
        """Return a conversation as text, with the position of the messages of some roles.

        A message's part is the text that the message adds after the earlier messages and the
        generation prompt.

        Raises:
            ChatError: the template rejects the conversation, or renders a message differently if
                other messages follow. Then the text has no part for that message.
        """
        text = self._render(messages, is_prompt=False)
        spans = []
        for at, message in enumerate(messages):
            if message.get("role") not in roles:
                continue
            before = self._render(messages[:at], is_prompt=True)
            after = self._render(messages[: at + 1], is_prompt=False)
            if not (after.startswith(before) and text.startswith(after)):
                msg = f"the template renders message {at} differently if other messages follow"
                raise ChatError(msg)
            spans.append((len(before), len(after)))
        return RenderedChat(text, spans)

    def _render(self, messages: Messages, *, is_prompt: bool) -> str:
        try:
            return str(
                self._template.render(
                    messages=messages, add_generation_prompt=is_prompt, **self._names
                )
            )
        except self._errors.TemplateError as error:
            msg = f"the chat template rejects the conversation: {error}"
            raise ChatError(msg) from error


def read_template(path: str) -> ChatTemplate:
    """Return the template of a `tokenizer_config.json`.

    Raises:
        ChatError: the file has no template, or several.
        UnreadableFileError: the file can't be read.
    """
    with open_binary(path) as file:
        content = file.read()
    try:
        config = json.loads(content)
        source = config.get("chat_template")
    except (ValueError, AttributeError):  # no JSON, or no object
        source = None
    if not isinstance(source, str):
        msg = f"{path}: there is no `chat_template` in it"
        raise ChatError(msg)
    found = {name: config.get(name) for name in _NAMES}
    texts = {
        # A special token is a string, or an object with `content` and flags.
        name: token["content"] if isinstance(token, dict) else token
        for name, token in found.items()
        if token is not None
    }
    return ChatTemplate(source, texts)


def _format_json(value: object, **options: Any) -> str:  # noqa: ANN401 - same signature as Jinja's filter
    # Jinja's own `tojson` escapes characters of HTML, which a prompt must keep.
    return json.dumps(value, ensure_ascii=False, **options)


def _refuse(message: str) -> NoReturn:
    raise import_module("jinja2.exceptions").TemplateError(message)
