"""Decides the operator's actions: pure functions turn a view of the cluster into a plan."""
