"""The command `odeprocess`: each file parses, calls and prints; the work is done in other packages.

May import every package.
"""
