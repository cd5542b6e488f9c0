"""Normalization and the activations it fuses: csrc/ops/{mvn,activation}*, csrc/cpu/mvn."""
