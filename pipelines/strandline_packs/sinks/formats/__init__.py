"""File formats of other programs. Pure: rows in, bytes out, without files."""
