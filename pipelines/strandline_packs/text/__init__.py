"""Stages for text."""

from __future__ import annotations

from strandline.plan.stages.packs import Dependency, Pack

PACK = Pack(
    stages={
        "c4-quality": "strandline_packs.text.filters.presets.c4_quality:C4Quality",
        "classify-text": "strandline_packs.text.scoring.classify_text:ClassifyText",
        "count-tokens": "strandline_packs.text.count_tokens:CountTokens",
        "drop-listed-words": "strandline_packs.text.filters.drop_listed_words:DropListedWords",
        "filter-text-quality": "strandline_packs.text.filter_text_quality:FilterTextQuality",
        "fineweb-quality": "strandline_packs.text.filters.presets.fineweb_quality:FinewebQuality",
        "gopher-quality": "strandline_packs.text.filters.presets.gopher_quality:GopherQuality",
        "gopher-repetition": (
            "strandline_packs.text.filters.presets.gopher_repetition:GopherRepetition"
        ),
        "identify-language": "strandline_packs.text.scoring.identify_language:IdentifyLanguage",
        "normalise-text": "strandline_packs.text.normalise_text:NormaliseText",
        "parse-documents": "strandline_packs.text.parse_documents:ParseDocuments",
        "redact-pii": "strandline_packs.text.privacy.redact_pii:RedactPii",
        "repair-text": "strandline_packs.text.repair_text:RepairText",
        "score-perplexity": "strandline_packs.text.scoring.score_perplexity:ScorePerplexity",
        "score-text": "strandline_packs.text.scoring.score_text:ScoreText",
        "tokenise-text": "strandline_packs.text.tokenise_text:TokeniseText",
    },
    adapters={
        "data_juicer": "strandline_packs.text.filters.adapters.data_juicer_ops:adapt_op",
        "datatrove": "strandline_packs.text.filters.adapters.datatrove_steps:adapt_step",
        "nemo_curator": "strandline_packs.text.filters.adapters.nemo_curator_stages:adapt_class",
    },
    packages=(
        Dependency(module="data_juicer", name="py-data-juicer", install="py-data-juicer"),
        Dependency(module="fasttext", name="fasttext-predict", install="strandline[text]"),
        Dependency(module="ftfy", name="ftfy", install="strandline[text]"),
        Dependency(
            module="kenlm",
            name="kenlm",
            install="strandline[perplexity]",
            needs="a C++ compiler, since KenLM has no wheels",
        ),
        Dependency(module="nemo_curator", name="nemo-curator", install="nemo-curator"),
        Dependency(module="nltk", name="nltk", install="strandline[splitting]"),
        Dependency(module="sentencepiece", name="sentencepiece", install="strandline[perplexity]"),
        Dependency(module="spacy", name="spacy", install="strandline[splitting]"),
        Dependency(module="tokenizers", name="tokenizers", install="strandline[text]"),
    ),
    page="docs/text.md",
)
