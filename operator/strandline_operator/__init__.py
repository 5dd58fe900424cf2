"""The cluster side of Strandline: it turns pipelines into attempts, and attempts into RayJobs."""
