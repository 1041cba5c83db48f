"""Where series come from: simulated curves and dynamical systems, and public data sets."""
