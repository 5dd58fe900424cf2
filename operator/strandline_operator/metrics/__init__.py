"""Prometheus metrics, health, and log lines of the operator."""
