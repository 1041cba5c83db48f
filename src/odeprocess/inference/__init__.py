"""Latents given observations: exact inference for one series, and the compiled functions that run it for many.

A series is a nonlinear least-squares problem in its latents (`least_squares`). Its modes under each component of the prior
(`modes`) and randomised maximum a posteriori draws around them (`randomised_map`) describe the posterior; `noise_scale` is the
model of the noise of a single series, and `batched` has the compiled functions. The page *Inference* of the documentation
(`docs/inference.md`) has the equations. May import `common`, `data` and `process`.
"""
