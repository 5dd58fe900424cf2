"""Stages that run a model where the device is."""
