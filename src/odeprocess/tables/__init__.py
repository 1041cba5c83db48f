"""Long tables in and out: reading, checking, shaping, choosing and answering for `odeprocess.Forecaster`."""
