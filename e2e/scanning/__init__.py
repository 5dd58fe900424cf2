"""Known vulnerabilities of an image, found by an external scanner, and accepted exceptions."""
