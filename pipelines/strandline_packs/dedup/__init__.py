"""Stages that find duplicates and benchmark texts."""

from __future__ import annotations

from strandline.plan.stages.packs import Dependency, Pack

PACK = Pack(
    stages={
        "cluster-duplicates": "strandline_packs.dedup.corpus.cluster_duplicates:ClusterDuplicates",
        "digest-rows": "strandline_packs.dedup.corpus.digest_rows:DigestRows",
        "digest-sentences": "strandline_packs.dedup.corpus.sentences:DigestSentences",
        "drop-contaminated": "strandline_packs.dedup.drop_contaminated:DropContaminated",
        "drop-duplicates": "strandline_packs.dedup.drop_duplicates:DropDuplicates",
        "drop-listed": "strandline_packs.dedup.drop_listed:DropListed",
        "drop-listed-sentences": "strandline_packs.dedup.corpus.sentences:DropListedSentences",
        "drop-seen": "strandline_packs.dedup.seen.drop_seen:DropSeen",
        "fill-bloom": "strandline_packs.dedup.seen.fill_bloom:FillBloom",
        "join-paragraphs": "strandline_packs.dedup.corpus.paragraphs:JoinParagraphs",
        "link-duplicates": "strandline_packs.dedup.corpus.link_duplicates:LinkDuplicates",
        "list-kept": "strandline_packs.dedup.corpus.list_kept:ListKept",
        "sign-texts": "strandline_packs.dedup.corpus.sign_texts:SignTexts",
        "sketch-texts": "strandline_packs.dedup.near.sketch_texts:SketchTexts",
        "split-paragraphs": "strandline_packs.dedup.corpus.paragraphs:SplitParagraphs",
    },
    commands={
        "near-duplicates": "strandline_packs.dedup.commands.near_duplicates:near_duplicates",
    },
    summaries={"near-duplicates": "List the near-duplicates in a corpus."},
    packages=(
        Dependency(module="datasketch", name="datasketch", install="strandline[statistics]"),
    ),
    page="docs/duplicates.md",
)
