"""What all loops of the CPU share: csrc/choose, csrc/cpu/{isa,threads}."""
