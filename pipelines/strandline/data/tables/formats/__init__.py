"""Tables of Delta, Iceberg, and Lance: a module for each format, and no other has its library."""
