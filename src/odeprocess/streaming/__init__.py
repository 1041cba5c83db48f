"""Many series at once, fed as observations arrive: a `Stream` with its running summaries, log of observations and ids.

May import `common`, `data`, `process`, `inference` and `posterior`; not `training`.
"""
