"""Users' code and files in the fingerprint: which parts count, and how changes are reported."""

from __future__ import annotations

import importlib
import json
import linecache
from collections.abc import Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from code_builders import STAGE, Code, read_fingerprint
from strandline import Pipeline
from strandline.plan.fingerprint import Fingerprint, describe_difference, find_first_change
from strandline.plan.stages.registry import find_stage
from strandline.run.code import own_modules
from strandline.run.code.code_reader import digest_file
from strandline.run.code.stage_code import fingerprint_code
from strandline.run.code.weight_files import list_weights


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Code:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return Code(tmp_path)


@pytest.mark.parametrize(
    ("module", "files", "edited"),
    [
        ("top", {"top.py": STAGE}, "top.py"),
        ("top", {"top.py": f"import top_b\n{STAGE}", "top_b.py": "A = 1"}, "top_b.py"),
        ("top", {"top.py": STAGE + "        import top_b\n", "top_b.py": ""}, "top_b.py"),
        ("top.a", {"top/__init__.py": "", "top/a.py": STAGE}, "top/__init__.py"),
        (
            "top.a",
            {"top/__init__.py": "", "top/a.py": f"from . import b\n{STAGE}", "top/b.py": ""},
            "top/b.py",
        ),
        ("top.a", {"top/a.py": f"from top.b import c\n{STAGE}", "top/b/c.py": ""}, "top/b/c.py"),
        (
            "top.a",
            {
                "top/a.py": STAGE + "        from top.x.y import z\n",
                "top/x/y/z.py": "from . import w",
                "top/x/y/w.py": "",
            },
            "top/x/y/w.py",
        ),
        (
            "top",
            {"top.py": f"from top_b import *\n{STAGE}", "top_b.py": "import top_c", "top_c.py": ""},
            "top_c.py",
        ),
        ("top", {"top.py": "from top_b import Own", "top_b.py": STAGE}, "top_b.py"),
        ("top", {"top.py": "from top_b import Own", "top_b.py": STAGE}, "top.py"),
    ],
)
def test_an_edited_module_is_named(
    code: Code, module: str, files: Mapping[str, str], edited: str
) -> None:
    for name, text in files.items():
        code.write(name, text)
    before = code.fingerprint(module)
    assert before == code.fingerprint(module)
    assert before.unread == ()
    code.write(edited, files[edited] + "\n# only a remark\n")
    assert before == code.fingerprint(module)
    code.write(edited, files[edited] + "\nMORE = 1\n")
    assert code.describe(before, code.fingerprint(module)) == [f"own: {edited} has changed"]


def test_added_and_removed_modules_are_named(code: Code) -> None:
    code.write("top.py", STAGE)
    code.write("top_b.py", "")
    before = code.fingerprint()
    code.write("top.py", f"{STAGE}        import top_b\n")
    after = code.fingerprint()
    changed = "own: top.py has changed"
    assert code.describe(before, after) == [changed, "own: top_b.py is new"]
    assert code.describe(after, before) == [changed, "own: top_b.py is no longer used"]


def test_a_ledger_without_code_accepts_the_current_code(code: Code) -> None:
    code.write("top.py", STAGE)
    now = code.fingerprint()
    old = {path: part for path, part in now.parts.items() if path != "own.code"}
    for before, after in ((old, now.parts), (now.parts, old)):
        assert describe_difference(before, after) == []
        assert find_first_change(before, after) is None
    limited = code.fingerprint(prompt="other").parts
    (line,) = describe_difference(old, limited)
    assert line == 'own.with.prompt: "text" -> "other"'


def install(code: Code, folder: Path, version: str, record: str | None = "top.py,,\n") -> None:
    """Write the metadata that `pip install` leaves, or without `record` that of a project."""
    name = f"{code.top}-{version}.dist-info" if record else f"{code.top}.egg-info"
    code.write(
        f"{name}/{'METADATA' if record else 'PKG-INFO'}", f"Name: top\nVersion: {version}\n", folder
    )
    code.write(f"{name}/{'RECORD' if record else 'top_level.txt'}", record or "top\n", folder)


@pytest.mark.parametrize("folder", ["lib/site-packages", "target"])
def test_an_installed_package_counts_by_its_version(
    code: Code, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = code.root / folder
    monkeypatch.syspath_prepend(str(root))
    code.write("top.py", STAGE, root)
    install(code, root, "1.0")
    before = code.fingerprint()
    assert before.parts["own.code"] == {code.top: "version 1.0"}
    code.write("top.py", f"{STAGE}\nMORE = 1", root)
    assert before == code.fingerprint()
    next(root.glob("*.dist-info")).rename(root / f"{code.top}-1.1.dist-info")
    install(code, root, "1.1")
    own_modules._find_namesake.cache_clear()
    own_modules._map_owners.cache_clear()
    assert code.describe(before, code.fingerprint()) == ["own: top version 1.0 -> 1.1"]


def test_versions_of_dependencies_do_not_count(code: Code, monkeypatch: pytest.MonkeyPatch) -> None:
    root = code.root / "lib/site-packages"
    monkeypatch.syspath_prepend(str(root))
    code.write("top_b.py", "", root)
    install(code, root, "1.0", "top_b.py,,\n")
    code.write("top.py", f"import top_b, numpy, strandline\n{STAGE}")
    assert list(code.fingerprint().parts["own.code"]) == [f"{code.top}.py"]


def test_an_editable_project_counts_by_its_files(code: Code) -> None:
    code.write("top.py", STAGE)
    install(code, code.root, "1.0", None)
    assert list(code.fingerprint().parts["own.code"]) == [f"{code.top}.py"]


def test_a_file_copied_between_packages_counts_by_its_text(
    code: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = code.root / "lib/site-packages"
    monkeypatch.syspath_prepend(str(root))
    code.write("top.py", f"import top_b\n{STAGE}", root)
    code.write("top_b.py", "", root)
    assert len(code.fingerprint().parts["own.code"]) == 2


def test_code_that_cannot_be_read_is_named(code: Code) -> None:
    fast = code.write(f"top_fast{EXTENSION_SUFFIXES[0]}", "")
    code.write("top.py", f"{STAGE}        import top_fast\n        eval('1')\n")
    before = code.fingerprint()
    advice = "raise the stage's `version` when that code changes"
    assert [line.replace(code.top, "top") for line in before.unread] == [
        f"own: top.py calls eval; {advice}",
        f"own: top_fast.so can't be read; {advice}",
    ]
    fast.write_text("other")
    assert before == code.fingerprint()


def test_files_that_parameters_name_count_by_their_bytes(code: Code) -> None:
    code.write("top.py", STAGE)
    for name in ("prompt.txt", "a.lst", "cache.db", "text"):
        code.write(name, "1")
    (code.root / "models.d").mkdir()
    values: dict[str, Any] = {
        "prompt": "prompt.txt",
        "lists": ("a.lst", "models.d"),
        "cache": "cache.db",
    }
    before = code.fingerprint(**values)
    (line,) = before.unread
    assert line.startswith("own: `with.lists[1]` is a folder; ")
    method = "    def digest_inputs(self):\n        return {'lists[1]': 'f00'}\n"
    code.write("top_b.py", STAGE + method)
    assert code.fingerprint("top_b", **values).unread == ()
    for name in ("cache.db", "text"):
        code.write(name, "2")
    assert before == code.fingerprint(**values)
    for name in ("prompt.txt", "a.lst"):
        code.write(name, "2")
    changed = code.describe(before, code.fingerprint(**values))
    assert changed == ["own: a.lst has changed", "own: prompt.txt has changed"]


@pytest.mark.parametrize(
    "text",
    [
        "Rate it. " * 60,
        "a.b/" * 255,
        "./..",
        "1.5",
        "http://127.0.0.1:9/x.txt",
        "a\0b.txt",
        "a.txt\n",
    ],
)
def test_text_that_is_no_path_is_not_opened(code: Code, text: str) -> None:
    code.write("top.py", STAGE)
    found = code.fingerprint(prompt=text)
    assert (found.unread, list(found.parts["own.code"])) == ((), [f"{code.top}.py"])


def test_an_unreadable_file_is_named(code: Code, monkeypatch: pytest.MonkeyPatch) -> None:
    code.write("top.py", STAGE)
    code.write("prompt.txt", "1")

    def refuse(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("strandline.run.code.code_reader.digest_file", refuse)
    (line,) = code.fingerprint(prompt="prompt.txt").unread
    assert line == "own: `with.prompt`: prompt.txt can't be read: Permission denied"


def test_a_large_file_counts_by_blocks_all_over_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, size = tmp_path / "weights", 16 << 20
    path.write_bytes(bytes(size))
    whole = digest_file(path)
    monkeypatch.setattr("strandline.run.code.code_reader.LARGE", size - 1)
    digests = {whole, digest_file(path)}
    for at in (0, 1 << 16, (size - (1 << 16)) * 31 // 63, size - 1):
        with path.open("r+b") as file:
            file.seek(at)
            file.write(b"1")
        digests.add(digest_file(path))
    with path.open("ab") as file:
        file.write(b"1")
    digests.add(digest_file(path))
    # The digest skips the bytes between two blocks, so the change there has no effect.
    assert len(digests) == 6


def write_model(path: Path) -> None:
    """Write a model whose weights are in three files: a graph's, a branch's, and a constant's."""
    weights = [make_weights(name) for name in ("own", "branch", "constant")]
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4])
    constant = onnx.helper.make_node("Constant", [], ["y"], value=weights[2])
    branches = {
        "then_branch": onnx.helper.make_graph(
            [onnx.helper.make_node("Identity", ["branch"], ["y"])], "b", [], [result], [weights[1]]
        ),
        "else_branch": onnx.helper.make_graph([constant], "b", [], [result]),
    }
    given = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.BOOL, [1])
    node = onnx.helper.make_node("If", ["x"], ["y"], **branches)
    graph = onnx.helper.make_graph([node], "g", [given], [result], [weights[0]])
    path.write_bytes(onnx.helper.make_model(graph).SerializeToString())


def make_weights(name: str) -> onnx.TensorProto:
    """Return a tensor whose numbers are in a file of the same name."""
    tensor = onnx.numpy_helper.from_array(np.zeros(4, "float32"), name)
    onnx.external_data_helper.set_external_data(tensor, f"{name}.bin")
    tensor.ClearField("raw_data")
    return tensor


@pytest.mark.parametrize("kind", ["own", "classify-text"])
def test_weights_beside_a_model_count(code: Code, kind: str) -> None:
    code.write("top.py", STAGE)
    write_model(code.root / "model.onnx")
    (code.root / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"a": "own.bin", "b": "constant.bin"}})
    )

    def read() -> Fingerprint:
        if kind == "own":
            return code.fingerprint(lists=("model.onnx", "model.safetensors.index.json"))
        return read_fingerprint(find_stage(kind)(model=str(code.root / "model.onnx")))

    before = read()
    for name in ("own", "branch", "constant"):
        code.write(f"{name}.bin", "1")
    present = read()
    assert len(describe_difference(before.parts, present.parts)) == (3 if kind == "own" else 0)
    name = "own" if kind == "own" else "classify-text"
    for file in ("own.bin", "branch.bin", "constant.bin"):
        code.write(file, "2")
        assert code.describe(present, read()) == [f"{name}: {file} has changed"]
        code.write(file, "1")


@pytest.mark.parametrize(
    "data", [b"", b"\xff" * 40, b"\x3a\x7f", b"\x3a\x02\x2a\x09", b"{}", b'{"weight_map": [1]}']
)
def test_other_files_have_no_weights(data: bytes) -> None:
    for name in ("a.onnx", "a.index.json", "a.bin"):
        assert list_weights(name, memoryview(data)) == []


def test_a_conversation_counts_with_its_module_and_without_comments(code: Code) -> None:
    text = "import top_b\nasync def talk(row, ask):\n    return 1{}\n"
    code.write("top.py", text.format(""))
    code.write("top_b.py", "")
    values: dict[str, Any] = {"url": "http://127.0.0.1:9/v1", "model": "m"}
    values["rollout"] = f"{code.top}:talk"

    def read() -> Fingerprint:
        importlib.reload(importlib.import_module(code.top))
        linecache.checkcache()
        return read_fingerprint(find_stage("ask-model")(**values))

    before = read()
    code.write("top.py", text.format("  # a remark"))
    assert describe_difference(before.parts, read().parts) == []
    code.write("top_b.py", "A = 1")
    assert code.describe(before, read()) == ["ask-model: top_b.py has changed"]


def test_strandlines_own_stages_are_not_read(tmp_path: Path) -> None:
    source, sink = find_stage("files")(paths=("in/*",)), find_stage("jsonl")()
    plan = Pipeline("own", source=source, stages=[find_stage("read-files")()], sink=sink).plan
    assert fingerprint_code(plan) is plan
