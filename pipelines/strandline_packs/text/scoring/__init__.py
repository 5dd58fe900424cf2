"""Stages that score texts by a model: of languages, of classes, of what text is likely."""
