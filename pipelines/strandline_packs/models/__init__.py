"""Stages that run or call models."""

from __future__ import annotations

from strandline.plan.stages.packs import Dependency, Pack

PACK = Pack(
    stages={
        "ask-model": "strandline_packs.models.asking.ask_model:AskModel",
        "caption-frames": "strandline_packs.models.caption_frames:CaptionFrames",
        "embed-frames": "strandline_packs.models.embed_frames:EmbedFrames",
        "score-images": "strandline_packs.models.score_images:ScoreImages",
        "tokenise-chat": "strandline_packs.models.tokenise_chat:TokeniseChat",
    },
    commands={
        "requests": "strandline_packs.models.commands.requests:requests",
    },
    summaries={"requests": "Show and prune the logs of requests to models."},
    packages=(
        Dependency(module="jinja2", name="jinja2", install="strandline[asking]"),
        Dependency(module="jsonschema", name="jsonschema", install="strandline[asking]"),
        Dependency(module="onnxruntime", name="onnxruntime", install="strandline[models]"),
    ),
    page="docs/models.md",
)
