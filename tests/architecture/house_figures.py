"""Prints figures on the code's size at any commit: `house_figures.py A B`.

The table has a column per commit; the default is HEAD. Tests enforce budgets; this table only
informs. Reads `git archive`, so uncommitted changes do not count.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from statistics import median, quantiles

from source_tree import PACKAGES, ROOT, Function, Module
from test_voice import PROSE, measure

ROOMS = {
    "engine": "pipelines/strandline/engine",
    "packs": "pipelines/strandline_packs",
    "run": "pipelines/strandline/run",
    "cli": "pipelines/strandline/cli",
    "decide": "operator/strandline_operator/decide",
    "bench": "bench/strandline_bench",
}
# Pages that grew over time, and the pages that were split off from them.
PAGES = (
    *("benchmarks", "engine", "failures", "kubernetes", "reliability", "running", "text-filters"),
    *("lineage", "queues", "text-scores"),
)
LONG_ENOUGH = 5  # minimum number of lines of a duplicated body
WRITTEN = (
    r"<!-- ([\w: -]+?): begin -->.*?<!-- \1: end -->",
    r"<!-- table: [\w-]+ -->.*?<!-- end -->",
    r"^```.*?^```",
)


def read_commit(commit: str) -> dict[str, str]:
    """Return the text of all Python modules, pages, and settings of a commit, by path."""
    archive = ["git", "archive", "--format=tar", commit]
    content = subprocess.run(archive, cwd=ROOT, check=True, capture_output=True).stdout
    texts: dict[str, str] = {}
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for member in tar:
            is_text = member.name.endswith((".py", ".md", ".toml"))
            if is_text and (file := tar.extractfile(member)):
                texts[member.name] = file.read().decode("utf-8")
    return texts


def count_prose(page: str) -> int:
    """Count the words of a page, without code and generated tables."""
    for pattern in WRITTEN:
        page = re.sub(pattern, "", page, flags=re.DOTALL | re.MULTILINE)
    return len(re.findall(r"\w[\w'’.-]*", page))


def _select(texts: Mapping[str, str], *folders: str) -> tuple[Module, ...]:
    return tuple(
        Module(path, text, ast.parse(text))
        for path, text in texts.items()
        if path.endswith(".py") and any(path.startswith(f"{folder}/") for folder in folders)
    )


def _count_lines(modules: Iterable[Module]) -> int:
    return sum(module.text.count("\n") for module in modules)


def _spread(lengths: Sequence[int]) -> str:
    return f"{median(lengths):.0f}/{quantiles(lengths, n=10)[-1]:.0f}/{max(lengths)}"


def _measure_functions(modules: Iterable[Module]) -> list[int]:
    return [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, Function)
    ]


def _count_comments(modules: Iterable[Module]) -> tuple[int, int]:
    """Count the comments on separate lines, and the comments after code."""
    own = trailing = 0
    for module in modules:
        for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
            text = token.string.lstrip("#").strip()
            if token.type != tokenize.COMMENT or re.match(r"(noqa|type:|fmt:|pragma)", text):
                continue
            if token.line.lstrip().startswith("#"):
                own += 1
            else:
                trailing += 1
    return own, trailing


def _count_twins(modules: Iterable[Module]) -> int:
    names = Counter(
        node.name
        for module in modules
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and node.name != "Params"
    )
    return sum(count > 1 for count in names.values())


def _describe_shape(body: list[ast.stmt]) -> tuple[object, ...]:
    """Return a body's syntax tree, with each name replaced by a number in order of appearance."""
    names: dict[str, int] = {}
    shape: list[object] = []
    for node in ast.walk(ast.Module(body, [])):
        shape.append(type(node).__name__)
        if isinstance(node, ast.Name | ast.arg):
            name = node.id if isinstance(node, ast.Name) else node.arg
            shape.append(names.setdefault(name, len(names)))
        elif isinstance(node, ast.Attribute):
            shape.append(node.attr)
        elif isinstance(node, ast.Constant):
            shape.append("text" if isinstance(node.value, str) else repr(node.value))
    return tuple(shape)


def _count_copies(modules: Iterable[Module]) -> int:
    """Count the functions that duplicate another function's body of at least five lines."""
    shapes: Counter[tuple[object, ...]] = Counter()
    for module in modules:
        for node in ast.walk(module.tree):
            if not isinstance(node, Function):
                continue
            body = node.body[1:] if ast.get_docstring(node) else node.body
            if body and (body[-1].end_lineno or 0) - body[0].lineno + 1 >= LONG_ENOUGH:
                shapes[_describe_shape(body)] += 1
    return sum(count - 1 for count in shapes.values())


def _count_boxes(texts: Mapping[str, str], folder: str) -> int:
    """Count the modules and packages directly in a folder."""
    parts = PurePosixPath(folder).parts
    inside = {
        path.parts[len(parts)].removesuffix(".py")
        for path in map(PurePosixPath, texts)
        if path.parts[: len(parts)] == parts and path.suffix == ".py"
    }
    return len(inside - {"__init__", "__main__"})


def list_figures(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the names of figures with their values."""
    product = _select(texts, *PACKAGES)
    tests = _select(texts, "tests", "e2e")
    whole = _count_lines(product)
    parts = [_count_lines(_select(texts, package)) / 1000 for package in PACKAGES]
    lengths = [module.text.count("\n") for module in product]
    functions = _measure_functions(product)
    own, trailing = _count_comments(product)
    voice = measure(product)
    text = "\n".join(module.text for module in product)
    yield "product lines, modules", f"{whole / 1000:.1f}k, {len(product)}"
    yield "crds; operator; runtime lines", "; ".join(f"{part:.1f}k" for part in parts)
    yield "module med/p90/max", _spread(lengths)
    yield "function med/p90/max", _spread(functions)
    yield (
        "functions > 40 lines; modules > 400 lines; modules under 80 lines",
        f"{sum(length > 40 for length in functions)}; {sum(length > 400 for length in lengths)}; "
        f"{sum(length < 80 for length in lengths) / len(lengths):.0%}",
    )
    yield "lines of tests for one of the product", f"{_count_lines(tests) / whole:.2f}"
    yield "comments own / trailing", f"{own / whole:.2%} / {trailing / whole:.2%}"
    yield "noqa; type: ignore", f"{text.count('# noqa')}; {text.count('type: ignore')}"
    yield "class names twice (Params apart)", str(_count_twins(product))
    yield "functions with the body of another", str(_count_copies(product))
    for figure in PROSE:
        yield f"{figure} per 1,000 words", str(getattr(voice, figure))
    yield "comments that begin with a pronoun", f"{voice.openings / 10:.1f}%"
    yield "names that are bare participles", f"{voice.participles / 10:.1f}%"
    contracts = texts["pyproject.toml"].count("[[tool.importlinter.contracts]]")
    yield "import contracts", str(contracts)
    rooms = dict(ROOMS)
    if not _count_boxes(texts, rooms["bench"]):
        rooms["bench"] = "bench"  # commits before 781d889 have no package
    boxes = (f"{name} {_count_boxes(texts, folder)}" for name, folder in rooms.items())
    yield "boxes of a room", "; ".join(boxes)
    pages = [text for path, text in texts.items() if PurePosixPath(path).match("docs/*.md")]
    yield "words of all pages", f"{sum(map(count_prose, pages)):,}"
    for page in PAGES:
        words = count_prose(texts.get(f"docs/{page}.md", ""))
        yield f"words of docs/{page}.md", f"{words:,}" if words else "–"


def main() -> None:
    """Print the table."""
    commits = sys.argv[1:] or ["HEAD"]
    columns = [dict(list_figures(read_commit(commit))) for commit in commits]
    lines = [["figure", *commits], ["---"] * (len(commits) + 1)]
    lines += [[name, *(column[name] for column in columns)] for name in columns[0]]
    sys.stdout.writelines(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    main()
