"""The limits of FineWeb-2 by language, for filters with a `preset`.

Numbers and stop words come from the files `configs/*.yml` of huggingface/fineweb-2 on GitHub,
commit d0defb2 of 27 October 2025; limits for all languages come from its `fineweb-2-pipeline.py`.
The module must not depend on rules.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

_FILE = "fineweb_2.json"
_TOP, _REPEATED = (2, 3, 4), (5, 6, 7, 8, 9, 10)


class UnknownPresetError(ValueError):
    """Raised if the preset is unknown."""


def list_presets() -> tuple[str, ...]:
    """Return the names of all presets, such as `jpn_Jpan`."""
    return tuple(_read())


def find_quality_limits(name: str) -> dict[str, Any]:
    """Return FineWeb-2's limits for Gopher's quality rules.

    Raises:
        UnknownPresetError: the preset is unknown.
    """
    limits = _find(name)
    least, most = limits["wordLength"]
    # Korean stop words are particles. FineWeb-2 splits them from words; splitting at blanks does
    # not.
    has_stop_words = not name.endswith("_Hang")
    return {
        "min_avg_word_length": least,
        "max_avg_word_length": most,
        "min_alpha_words_ratio": limits["alphaWords"],
        "stop_words": tuple(limits["stopWords"]),
        "min_stop_words": 2 if has_stop_words else None,
    }


def find_repetition_limits(name: str) -> dict[str, Any]:
    """Return FineWeb-2's limits for Gopher's repetition rules; three rules are off.

    Raises:
        UnknownPresetError: the preset is unknown.
    """
    limits = _find(name)
    return {
        "dup_line_frac": limits["dupLines"],
        "dup_para_frac": None,
        "dup_line_char_frac": None,
        "dup_para_char_frac": None,
        "top_n_grams": dict(zip(_TOP, limits["topNgrams"], strict=True)),
        "dup_n_grams": dict(zip(_REPEATED, limits["dupNgrams"], strict=True)),
    }


def find_line_limits(name: str) -> dict[str, Any]:
    """Return FineWeb-2's limits for FineWeb's rules; the rule on short lines is off.

    Raises:
        UnknownPresetError: the preset is unknown.
    """
    limits = _find(name)
    return {
        "line_punct_thr": limits["linePunct"],
        "short_line_thr": 1.0,
        "char_duplicates_ratio": 0.1,
        "new_line_ratio": limits["newLines"],
    }


def _find(name: str) -> Mapping[str, Any]:
    presets = _read()
    if name not in presets:
        alike = [known for known in presets if known[:2] == name[:2]]
        known = ", ".join(alike or presets)
        msg = f"unknown preset {name!r}; the presets are: {known}"
        raise UnknownPresetError(msg)
    return presets[name]


@cache
def _read() -> dict[str, Mapping[str, Any]]:
    text = files(__package__).joinpath(_FILE).read_text("utf-8")
    presets: dict[str, Mapping[str, Any]] = json.loads(text)
    return presets
