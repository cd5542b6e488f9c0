"""The pooling operators and their gradients: csrc/ops/pool*, csrc/cpu/{pool,winners,pool_grad}."""
