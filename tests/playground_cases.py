"""Exhibits of a playground: a trained model of sines with an untrained one beside it, and one that reads tables."""

import dataclasses
from pathlib import Path

import jax.random as jr

import odeprocess as odp
import table_cases
from cases import SOLVER, untrained
from odeprocess.playground.exhibit import NOTES


def save(model: odp.Model, folder: Path, **notes) -> Path:
    dataclasses.replace(model, info={**model.info, NOTES: notes}).save(folder)
    return folder


def sines_folder(model: odp.Model, root: Path) -> Path:
    """A model, and a neural process beside it that knows nothing."""
    folder = save(model, root / "sines", title="Sines", ranges=[[-1.5, 1.5]], beside={"Neural process": "np"})
    series = odp.data.sines.sample(8, key=jr.key(0))
    save(untrained(odp.variant("np", r_dim=8, z_dim=8, l_dim=8, h_dim=8), series), folder / "np")
    return folder


def prey_folder(root: Path) -> Path:
    """Two channels, of which a click gives one; untrained."""
    sizes = {"r_dim": 8, "z_dim": 6, "l_dim": 4, "h_dim": 8, "missing": True, "solver": SOLVER}
    model = untrained(odp.variant("ndp", **sizes), odp.data.lotka_volterra.sample(8, key=jr.key(0)))
    return save(model, root / "prey", title="Predators and prey", values=["prey", "predators"])


def table_folder(root: Path) -> Path:
    """A forecaster's model: the logarithm of one column, a number and a category for each series; untrained."""
    table_cases.untrained().save(root / "table")
    return root / "table"
