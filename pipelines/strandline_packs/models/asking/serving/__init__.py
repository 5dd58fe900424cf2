"""Servers of models that a worker starts for itself: how they are called, watched and replaced.

It must not know what is asked, nor of which rows.
"""
