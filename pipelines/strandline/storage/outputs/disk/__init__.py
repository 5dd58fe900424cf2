"""Files on a disk: atomic writes, locks among writers, and removal."""
