"""`python -m odeprocess`."""

from odeprocess.cli.app import main

main()
