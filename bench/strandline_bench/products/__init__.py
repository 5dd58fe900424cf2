"""What people pick on one machine for whole jobs, each as its own documentation has it."""
