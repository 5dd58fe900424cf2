"""File formats of other programs. Pure: takes rows and returns bytes, without files."""
