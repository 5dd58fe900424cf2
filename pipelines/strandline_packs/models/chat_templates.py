"""Conversations as the text that a model was made for, by the Jinja template of its tokenizer.

It knows which characters are of which message. It must not know tokens, nor which are learned.
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
    """A conversation can't be rendered, or its text is of no message alone."""


class RenderedChat(NamedTuple):
    """A conversation as text.

    Attributes:
        text: all of it.
        spans: where each part that counts begins and ends, in characters.
    """

    text: str
    spans: list[tuple[int, int]]


class ChatTemplate:
    """A template in a sandbox: it reads what it is given, and nothing else.

    Args:
        source: Jinja.
        names: of special tokens, such as `eos_token`.

    Raises:
        ChatError: it is no template.
    """

    def __init__(self, source: str, names: Mapping[str, str]) -> None:
        sandbox = import_module("jinja2.sandbox")
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
        """Return a conversation as text, with the parts of some roles.

        A part is what its message adds to those before it and what prompts for it.

        Raises:
            ChatError: the template refuses it, or renders a message in another way where others
                follow, so that no part of the text is of that message alone.
        """
        text = self._render(messages, is_prompt=False)
        spans = []
        for at, message in enumerate(messages):
            if message.get("role") not in roles:
                continue
            before = self._render(messages[:at], is_prompt=True)
            after = self._render(messages[: at + 1], is_prompt=False)
            if not (after.startswith(before) and text.startswith(after)):
                msg = f"the template renders message {at} in another way where others follow"
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
            msg = f"the chat template refuses the conversation: {error}"
            raise ChatError(msg) from error


def read_template(path: str) -> ChatTemplate:
    """Return the template of a `tokenizer_config.json`.

    Raises:
        ChatError: it has none, or several.
        UnreadableFileError: it can't be read.
    """
    with open_binary(path) as file:
        content = file.read()
    try:
        config = json.loads(content)
        source = config.get("chat_template")
    except (ValueError, AttributeError):
        source = None
    if not isinstance(source, str):
        msg = f"{path}: there is no `chat_template` in it"
        raise ChatError(msg)
    found = {name: config.get(name) for name in _NAMES}
    texts = {
        name: token["content"] if isinstance(token, dict) else token
        for name, token in found.items()
        if token is not None
    }
    return ChatTemplate(source, texts)


def _format_json(value: object, **options: Any) -> str:  # noqa: ANN401 - as Jinja's own has it
    return json.dumps(value, ensure_ascii=False, **options)


def _refuse(message: str) -> NoReturn:
    raise import_module("jinja2.exceptions").TemplateError(message)
