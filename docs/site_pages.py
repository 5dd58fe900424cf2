"""Pages of the site that lie elsewhere in the repository, and the links to them.

On GitHub a link is a path in the tree; the site has the pages of this folder, those at the root
and the examples. It must not change what a page says.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
EXAMPLES = Path("pipelines/examples")
# Paths in the repository, and what they are on the site.
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "RELEASING.md": "releasing.md",
    "SECURITY.md": "security.md",
    "changelog.d/README.md": "changelog-fragments.md",
}
# GitHub lists what is in a folder; the site has a page instead.
FOLDERS = {"docs/failures": "failures.md", "pipelines/examples": "examples/index.md"}
LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[)#])")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages at the root and the examples."""
    for path, name in PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / path).read_text("utf-8")))
    examples = sorted((ROOT / EXAMPLES).glob("*.yaml"))
    for example in examples:
        files.append(
            File.generated(config, f"examples/{example.name}", content=example.read_bytes())
        )
    listed = "\n".join(f"- [{example.stem}]({example.name})" for example in examples)
    files.append(
        File.generated(config, FOLDERS[EXAMPLES.as_posix()], content=f"# Examples\n\n{listed}\n")
    )
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Make links of paths in the repository lead to the same things on the site."""
    if page.file.generated_by and page.file.src_uri.startswith("examples/"):
        return markdown  # made here, with links of the site
    origins = {name: Path(path) for path, name in PAGES.items()}
    here = origins.get(page.file.src_uri, Path("docs") / page.file.src_uri)
    climb = "../" * (len(Path(page.file.src_uri).parts) - 1)

    def lead(found: re.Match[str]) -> str:
        target = ((ROOT / here).parent / found[0]).resolve()
        if not target.is_relative_to(ROOT):
            return found[0]  # mkdocs says that it is broken
        return climb + place(target.relative_to(ROOT))

    return LINK.sub(lead, markdown)


def place(path: Path) -> str:
    """Where a file of the repository is on the site."""
    known = PAGES | FOLDERS
    if path.as_posix() in known:
        return known[path.as_posix()]
    if path.is_relative_to(EXAMPLES):
        return f"examples/{path.relative_to(EXAMPLES)}"
    return path.as_posix().removeprefix("docs/")
