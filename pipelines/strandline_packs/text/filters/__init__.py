"""Document filters by the published rules of large corpora, a stage each."""
