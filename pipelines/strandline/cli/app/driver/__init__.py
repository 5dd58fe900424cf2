"""Start of a driver by a command, and the request passed to the driver."""
