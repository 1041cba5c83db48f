"""The scoreboard of accuracy: every model on every task, given more and more of each series."""
