"""Kubernetes operator of Strandline: turns pipelines into attempts, and attempts into RayJobs."""
