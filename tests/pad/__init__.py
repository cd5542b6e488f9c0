"""Padding: csrc/ops/pad*, csrc/cpu/pad."""
