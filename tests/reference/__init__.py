"""The oracle's own parts: python/cudml/{reference,bounds}, and errors well inside the bounds."""
