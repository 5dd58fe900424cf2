"""Stages that write outputs."""
