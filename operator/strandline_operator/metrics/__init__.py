"""Observability of the operator: Prometheus metrics, and log lines."""
