"""Commands about a pipeline and its machine, without running the pipeline."""
