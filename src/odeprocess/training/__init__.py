"""From series to a model: `fit`, its options, both phases of training, checkpoints and model selection.

May import `common`, `data`, `process`, `inference` and `posterior`.
"""
