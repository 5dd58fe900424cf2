"""Files on a disk: written whole, shared among writers, and removed."""
