"""Tables in, predictions out: `Forecaster`, and the reading, checking and shaping of long tables behind it.

May import `common`, `data`, `process`, `inference`, `posterior` and `training`.
"""
