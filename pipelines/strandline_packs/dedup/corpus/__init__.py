"""Stages that find duplicates in a whole corpus, pass by pass; each pass is a pipeline."""
