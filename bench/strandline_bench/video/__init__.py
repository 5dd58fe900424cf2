"""Compares stages for videos and audio with PyAV, silero-vad, and Ray Data."""
