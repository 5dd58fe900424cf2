"""What mypy checks of `evolve`: that names are the model's fields, and values of their types.

A signature in Python cannot say that, so a hook of mypy's gives each call its own. It belongs to
the checks alone, and is not shipped.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import ARG_NAMED_OPT, ARG_POS, TypeInfo, Var
from mypy.plugin import FunctionSigContext, Plugin
from mypy.types import CallableType, FunctionLike, Instance, Type, TypeVarType, get_proper_type

EVOLVE = "strandline_api.api_model.evolve"
# Where the plugin of pydantic's keeps a model's fields.
METADATA = "pydantic-mypy-metadata"


class EvolvePlugin(Plugin):
    """Gives a call of `evolve` the model's fields for optional keywords."""

    def get_function_signature_hook(
        self, fullname: str
    ) -> Callable[[FunctionSigContext], FunctionLike] | None:
        """Return the hook, for this one function."""
        return _name_fields if fullname == EVOLVE else None


def _name_fields(context: FunctionSigContext) -> CallableType:
    signature = context.default_signature
    # A call without a model is an error by the plain signature.
    if not context.args[0]:
        return signature
    model = get_proper_type(context.api.get_expression_type(context.args[0][0]))
    if isinstance(model, TypeVarType):
        model = get_proper_type(model.upper_bound)
    fields = _list_fields(model.type) if isinstance(model, Instance) else {}
    # By the plain signature any name would do.
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
            # An unknown type would let any value pass.
            assert isinstance(node, Var)
            assert node.type is not None
            fields[name] = node.type
    return fields


def plugin(version: str) -> type[Plugin]:
    """Return the plugin; mypy calls this by its name."""
    del version
    return EvolvePlugin
