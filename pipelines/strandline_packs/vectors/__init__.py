"""Stages for embeddings: vectors, clusters of vectors, and rows with the same meaning."""

from __future__ import annotations

from strandline.plan.stages.packs import Dependency, Pack

PACK = Pack(
    stages={
        "assign-cluster": "strandline_packs.vectors.assign_cluster:AssignCluster",
        "compare-vectors": "strandline_packs.vectors.compare_vectors:CompareVectors",
        "embed-hashes": "strandline_packs.vectors.embedding.embed_hashes:EmbedHashes",
        "embed-images": "strandline_packs.vectors.embedding.embed_images:EmbedImages",
        "embed-text": "strandline_packs.vectors.embedding.embed_text:EmbedText",
        "fit-clusters": "strandline_packs.vectors.fit_clusters:FitClusters",
        "list-similar": "strandline_packs.vectors.list_similar:ListSimilar",
    },
    commands={"similar": "strandline_packs.vectors.commands.similar:similar"},
    summaries={"similar": "Show the nearest neighbours of a row."},
    packages=(
        Dependency(module="faiss", name="faiss-cpu", install="strandline[vectors]"),
        Dependency(module="model2vec", name="model2vec", install="strandline[vectors]"),
        Dependency(module="wordllama", name="wordllama", install="strandline[vectors]"),
    ),
    page="docs/semantic-duplicates.md",
)
