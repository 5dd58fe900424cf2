"""Mypy plugin that checks calls of `evolve`: field names and value types must match the model.

Python's type hints cannot express this rule, so a mypy hook gives each call its own signature. The
plugin is not shipped.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import ARG_NAMED_OPT, ARG_POS, TypeInfo, Var
from mypy.plugin import FunctionSigContext, Plugin
from mypy.types import CallableType, FunctionLike, Instance, Type, TypeVarType, get_proper_type

EVOLVE = "strandline_api.api_model.evolve"
# Metadata key under which pydantic's plugin stores a model's fields.
METADATA = "pydantic-mypy-metadata"


class EvolvePlugin(Plugin):
    """Adds the model's fields to calls of `evolve` as optional keywords."""

    def get_function_signature_hook(
        self, fullname: str
    ) -> Callable[[FunctionSigContext], FunctionLike] | None:
        """Return the hook for `evolve`, or None for any other function."""
        return _name_fields if fullname == EVOLVE else None


def _name_fields(context: FunctionSigContext) -> CallableType:
    signature = context.default_signature
    # The declared signature already rejects a call without a model.
    if not context.args[0]:
        return signature
    model = get_proper_type(context.api.get_expression_type(context.args[0][0]))
    if isinstance(model, TypeVarType):
        model = get_proper_type(model.upper_bound)
    fields = _list_fields(model.type) if isinstance(model, Instance) else {}
    # The declared signature would accept any name.
    if not fields:
        context.api.fail("evolve takes a model of one known class", context.context)
    return signature.copy_modified(
        arg_names=[signature.arg_names[0], *fields],
        arg_kinds=[ARG_POS, *[ARG_NAMED_OPT] * len(fields)],
        arg_types=[signature.arg_types[0], *fields.values()],
    )


def _list_fields(model: TypeInfo) -> dict[str, Type]:
    fields: dict[str, Type] = {}
    for base in model.mro:
        for name in base.metadata.get(METADATA, {}).get("fields", {}):
            node = model[name].node
            # If the type were unknown, mypy would accept any value.
            assert isinstance(node, Var)
            assert node.type is not None
            fields[name] = node.type
    return fields


def plugin(version: str) -> type[Plugin]:
    """Return the plugin class. Mypy looks this function up under the name `plugin`."""
    del version
    return EvolvePlugin
