"""Builds both images with the available tool, stores the images as archives, and tests them.

The package must not depend on Kubernetes or on the programs in the images.
"""
