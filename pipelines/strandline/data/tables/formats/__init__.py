"""Tables of Delta, Iceberg, and Lance. Only the module of a format imports its library."""
