"""Decisions of the operator. Pure: a view of the cluster and a time in, a plan out."""
