"""Stages that score texts by a model: language, classes, and perplexity."""
