"""What sinks write in formats of other programs; pure, and none of them knows a file."""
