"""What people pick on one machine: whole jobs by products, and what libraries do for a stage."""
