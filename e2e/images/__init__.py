"""The two images: built with whatever tool is there, kept as archives, tried before they are used.

It must not know Kubernetes, nor what the programs inside do.
"""
