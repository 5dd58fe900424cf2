"""Stages that list sources, and what listing takes: patterns, buckets, references."""
