"""The lifecycle of a RayJob, from one status to the next. Pure."""
