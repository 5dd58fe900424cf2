"""Words that nearly every text of a language contains, as data."""

from __future__ import annotations

STOP_WORDS: dict[str, tuple[str, ...]] = {
    "de": ("der", "die", "das", "und", "ist", "nicht", "ein", "eine", "zu", "mit", "von", "in"),
    "en": ("the", "be", "to", "of", "and", "that", "have", "with"),
    "es": ("el", "la", "de", "que", "y", "en", "los", "se", "un", "una", "con", "para"),
    "fr": ("le", "la", "les", "de", "des", "et", "est", "que", "un", "une", "dans", "pour"),
    "it": ("il", "la", "di", "che", "e", "un", "una", "per", "con", "non", "sono", "in"),
    "nl": ("de", "het", "een", "en", "van", "is", "dat", "niet", "op", "met", "in", "te"),
    "pt": ("o", "a", "de", "que", "e", "do", "da", "em", "um", "uma", "para", "com"),
}
