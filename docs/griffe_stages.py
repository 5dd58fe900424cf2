"""Shapes stages and their parameters for the Python reference.

mkdocstrings renders the page from what Griffe, its reader of code, collects. This extension of
Griffe must not change what a docstring says.
"""

from __future__ import annotations

from griffe import (
    Alias,
    Attribute,
    Class,
    Docstring,
    ExprCall,
    ExprKeyword,
    ExprName,
    Extension,
    Module,
    dynamic_import,
)

from strandline.plan.stages.packs import load_own_packs

NAMES = {target: name for pack in load_own_packs().values() for name, target in pack.stages.items()}


class StageExtension(Extension):
    """Describe fields by their descriptions, and stages by their names in a file."""

    def on_module_members(self, *, mod: Module, **_: object) -> None:
        """Drop docstrings of modules: the page has a heading and an introduction for each."""
        mod.docstring = None

    def on_class_instance(self, *, cls: Class, **_: object) -> None:
        """Add the name in a file, and resolve a base with the name of the class."""
        cls.bases = [
            # Griffe would resolve `class Params(Params)` inside a class to the class itself.
            ExprName(base.name, parent=cls.module)
            if isinstance(base, ExprName) and base.name == cls.name
            else base
            for base in cls.bases
        ]
        name = NAMES.get(f"{cls.module.path}:{cls.name}")
        if name is not None and cls.docstring:
            cls.docstring.value += f"\n\nIn a file: `use: {name}`."

    def on_class_members(self, *, cls: Class, **_: object) -> None:
        """Resolve parameters that are defined elsewhere: `Params = AskParams`."""
        value = cls.attributes["Params"].value if "Params" in cls.attributes else None
        if isinstance(value, ExprName):
            cls.set_member("Params", Alias("Params", value.canonical_path))

    def on_attribute_instance(self, *, attr: Attribute, **_: object) -> None:
        """Take the docstring of a field from its description."""
        call, model = attr.value, attr.parent
        is_field = isinstance(call, ExprCall) and str(call.function) == "Field"
        if not isinstance(model, Class) or not (is_field or model.name.endswith("Params")):
            return
        if isinstance(call, ExprCall):
            call.arguments = [each for each in call.arguments if not _is_description(each)]
        # Some descriptions are f-strings or shared, so read the text of the class itself.
        fields = getattr(dynamic_import(model.path), "model_fields", {})
        if attr.name in fields and fields[attr.name].description:
            attr.docstring = Docstring(fields[attr.name].description, parent=attr)

    def on_package(self, *, pkg: Module, **_: object) -> None:
        """Reduce each stage to its parameters and those of its bases."""
        _shape_stages(pkg)


def _is_description(argument: object) -> bool:
    return isinstance(argument, ExprKeyword) and argument.name == "description"


def _shape_stages(scope: Module | Class) -> None:
    for member in scope.members.values():
        if isinstance(member, (Module, Class)):
            _shape_stages(member)
    if not (isinstance(scope, Class) and scope.path.startswith("strandline_packs.")):
        return
    if scope.name.endswith("Params"):
        for name, member in scope.inherited_members.items():
            scope.set_member(name, Alias(name, member.final_target, parent=scope))
    # The engine calls a stage's methods; a pipeline only constructs the stage.
    for name in [*scope.members]:
        member = scope.members[name]
        if member.is_function or "property" in member.labels:
            scope.del_member(name)
