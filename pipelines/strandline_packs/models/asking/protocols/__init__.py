"""Families of model servers, a module each: how they are asked, and what their answers mean.

They must not know how a request travels.
"""
