"""Both images tried as pods would use them: sizes, file systems, a room without a cluster."""
