"""What a RayJob is taken through, from each of its statuses to the next. Pure."""
