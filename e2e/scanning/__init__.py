"""Known vulnerabilities of what is in an image, by a scanner kept elsewhere; which may stay."""
