"""DirectML's descriptors and compiled operators: csrc/directml, python/cudml/directml."""
