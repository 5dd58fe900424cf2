"""Shuffling of rows by two pipelines: one partitions the rows, the next reads each partition."""
