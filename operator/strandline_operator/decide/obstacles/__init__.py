"""Detects obstacles that keep an attempt from starting or continuing.

The package is pure: functions return an obstacle or None for a scene. It must not depend on how
obstacles are handled.
"""
