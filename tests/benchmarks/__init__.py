"""The scripts of benchmarks/, on small arrays."""
