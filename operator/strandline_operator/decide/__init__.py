"""What follows from what was seen. Pure: a view and a time in, a plan out."""
