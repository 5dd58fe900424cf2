"""Per-namespace settings that apply to all pipelines of the namespace."""
