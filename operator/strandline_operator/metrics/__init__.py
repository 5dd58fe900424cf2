"""Provides the operator's metrics, health page, and log lines."""
