"""Stages that find duplicates in a whole corpus in several passes. Each pass is a pipeline."""
