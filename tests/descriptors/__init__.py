"""The descriptions of the functions that DirectML does not have: python/cudml/descriptors."""
