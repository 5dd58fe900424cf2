"""What the operator tells of itself: numbers for Prometheus, and lines for a log."""
