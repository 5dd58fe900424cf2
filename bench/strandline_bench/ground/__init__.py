"""What all benchmarks stand on: sizes, tables, a local Ray, stages that do nothing."""
