"""Contents of files, accounted for to the last byte: members of archives, values of lines."""
