"""Stages for rows of any kind: reading, selecting, measuring."""
