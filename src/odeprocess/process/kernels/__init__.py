"""Fused solver steps: a JAX operation (`fused`) that on an NVIDIA GPU is one CUDA kernel (`cuda`, `*.cu`, `*.cuh`)."""
