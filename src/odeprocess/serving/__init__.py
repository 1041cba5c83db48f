"""Models for others to use: `http`, a server with an API, and `playground`, a page on which a model is touched.

May import every package but `cli`.
"""
