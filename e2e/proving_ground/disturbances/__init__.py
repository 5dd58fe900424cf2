"""Disturbances of a run from outside, caused as they are in production."""
