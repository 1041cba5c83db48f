"""Models that ours are compared with: Gaussian processes and an attentive neural process."""
