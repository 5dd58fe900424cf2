"""Obstacles that keep an attempt from starting or continuing, and how to detect them.

Pure: a scene in, an obstacle or None out. The package must not depend on the handling of obstacles.
"""
