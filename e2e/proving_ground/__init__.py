"""Tools for scenarios on a real cluster. They use Strandline only from the outside."""
