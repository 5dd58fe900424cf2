"""Stages that send requests to model servers, and the log of answered requests."""
