"""Load on the service, and what it measures: a client that costs less than what it measures, and the benchmarks."""
