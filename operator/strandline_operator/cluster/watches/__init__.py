"""Kinds of objects that are followed: the stream, its cache, and the memory that it takes."""
