"""Files on a disk: atomic writes, sharing among writers, and removal."""
