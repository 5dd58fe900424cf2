"""What a node must be able to do, tried one by one."""
