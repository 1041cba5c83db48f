"""Helpers that do not depend on series or models, for every package.

Checks of input, atomic files with checksums, compiled functions, small linear algebra, distributions and scores.

Imports nothing of the project but `version`.
"""
