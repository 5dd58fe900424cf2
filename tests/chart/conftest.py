"""Fixtures of this folder, from a module that mypy can name."""

from chart_fixtures import chart_cluster, clean_cluster, cluster_helm, helm, helm_binary

__all__ = ["chart_cluster", "clean_cluster", "cluster_helm", "helm", "helm_binary"]
