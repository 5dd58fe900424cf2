"""Commands that inspect a pipeline or its machine, without running the pipeline."""
