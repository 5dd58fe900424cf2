"""Which packages a stage needs, and how to get one that is not here.

It looks whether a module could be imported, and imports none unasked: some take a second. It must
not know what a stage does with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

# Modules that an extra of ours brings.
EXTRAS = {
    "adlfs": "stores",
    "aiohttp": "stores",
    "gcsfs": "stores",
    "s3fs": "stores",
    "PIL": "images",
    "backports": "zstd",
    "fasttext": "text",
    "ftfy": "text",
    "resiliparse": "text",
    "tokenizers": "text",
    "trafilatura": "text",
    "datasketch": "statistics",
    "datasketches": "statistics",
    "kenlm": "perplexity",
    "sentencepiece": "perplexity",
    "nltk": "splitting",
    "spacy": "splitting",
    "xarray": "fields",
    "zarr": "fields",
    "google_crc32c": "tfrecord",
    "av": "video",
    "numpy": "video",
    "onnxruntime": "models",
    "jinja2": "asking",
    "jsonschema": "asking",
    "huggingface_hub": "hub",
    "deltalake": "tables",
    "lance": "tables",
    "pyiceberg": "tables",
}
# Packages that are not called what their module is.
_NAMES = {
    "PIL": "pillow",
    "backports": "backports.zstd",
    "data_juicer": "py-data-juicer",
    "google_crc32c": "google-crc32c",
    "lance": "pylance",
    "fasttext": "fasttext-predict",
}
# More that an installation of a package takes.
_NEEDS = {"kenlm": "a C++ compiler, since KenLM has no wheels"}


def list_missing(modules: Iterable[str]) -> list[str]:
    """Return those of top-level modules that are not installed."""
    return [module for module in modules if find_spec(module) is None]


def name_package(module: str) -> str:
    """Return what the package with a module is called where packages are installed from."""
    top = module.partition(".")[0]
    return _NAMES.get(top, top)


def advise(module: str) -> str:
    """Return how to get a module that is not here."""
    top = module.partition(".")[0]
    extra = EXTRAS.get(top)
    if extra is not None:
        needs = f", which needs {_NEEDS[top]}" if top in _NEEDS else ""
        return f"pip install 'strandline[{extra}]'{needs}"
    return f"install the package that has the module {module!r} wherever the pipeline runs"


def load_module(module: str) -> Any:  # noqa: ANN401 - a module
    """Return a module that not every installation has.

    Raises:
        ImportError: it is not here; the message says how to get it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        msg = f"{name_package(module)} is not installed ({error}); {advise(module)}"
        raise ImportError(msg) from error


def explain_import(error: ImportError) -> str:
    """Explain an import that failed: which package is missing, and how to get it."""
    text = " ".join(str(error).split())
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return text or type(error).__name__
    name = name_package(error.name)
    return f"it needs the package {name}, which is not installed; {advise(error.name)}"
