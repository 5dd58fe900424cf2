"""Protocols of model servers, one module each: the form of requests, and the meaning of answers.

The modules must not depend on how requests travel.
"""
