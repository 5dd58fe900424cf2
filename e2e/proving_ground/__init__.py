"""What scenarios on a real cluster are told with. It knows Strandline from outside only."""
