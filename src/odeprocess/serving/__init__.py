"""Trained models for others to use: `http` is a server with a JSON API, `playground` a web page to try a model on.

May import every package but `cli`.
"""
