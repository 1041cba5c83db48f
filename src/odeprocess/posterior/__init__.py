"""What users hold: a trained `Model`, the `Posterior` of a series given its observations, and what is asked of them.

Predictions, calibration, the next measurement, the solver's error, pictures, model folders. Everything is in the user's units.
May import `common`, `data`, `process` and `inference`.
"""
