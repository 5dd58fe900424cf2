"""What can go wrong with a scan, in one sentence for the person who makes a release."""


class ScanError(Exception):
    """Nothing can be told of an image's vulnerabilities, or too little; the text says why."""
