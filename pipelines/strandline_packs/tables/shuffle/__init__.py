"""Shuffles rows with two pipelines: one partitions the rows, the next reads each partition."""
