"""The commands of ``python -m cudml``, one module each; nothing here is imported by the library."""
