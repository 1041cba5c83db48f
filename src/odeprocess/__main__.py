"""`python -m odeprocess`."""

from .cli import main

main()
