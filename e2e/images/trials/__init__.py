"""Tests both images without a cluster: sizes, file systems, and commands in a sandbox."""
