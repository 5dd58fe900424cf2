"""Commands about a pipeline and the machine it would run on; none of them runs it."""
