"""Sources of series: simulated curves and dynamical systems, and public data sets."""
