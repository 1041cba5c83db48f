"""The scoreboard of accuracy: our models and the baselines on simulated tasks, by number of observations given.

`tasks` makes the data, `models` trains the models, `evaluate` and `series_scores` compute the scores, `result_rows` makes the
rows of `results/accuracy.json` and `report` the page. A new model is added to `models.py`, `scoreboard.toml` and the columns in
`report.py`.
"""
