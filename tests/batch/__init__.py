"""A batch and its slices: every group's bits are its own, whatever stands beside it."""
