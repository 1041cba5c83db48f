"""The paper's experiments: protocols and published values as data, training and evaluation, and the page of results.

`protocols.toml` says how each task is trained and tested, `experiments.toml` what each table holds and the paper's values.
"""
