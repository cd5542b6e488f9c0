"""The CUDA kernels, interpreted and on a GPU, devices and streams: csrc/{cuda,simt}."""
