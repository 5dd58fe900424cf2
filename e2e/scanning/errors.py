"""Errors of a scan. Each message is one sentence for the release manager."""


class ScanError(Exception):
    """Raised if an image could not be scanned completely. The message gives the reason."""
