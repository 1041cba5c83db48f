"""Model folders for the playground: a trained model of sines with an untrained one beside it, and one of a forecaster."""

import dataclasses
from pathlib import Path

import jax.random as jr

import odeprocess as odp
import table_cases
from cases import SOLVER, untrained
from odeprocess.serving.playground.model_view import INFO_KEY

PREY_SIZES = {"r_dim": 8, "z_dim": 6, "l_dim": 4, "h_dim": 8, "missing": True, "solver": SOLVER}


def save(model: odp.Model, folder: Path, **info) -> Path:
    """Saves a model with texts and ranges for the page."""
    dataclasses.replace(model, info={**model.info, INFO_KEY: info}).save(folder)
    return folder


def sines_folder(model: odp.Model, root: Path) -> Path:
    """A model, and an untrained neural process beside it."""
    folder = save(model, root / "sines", title="Sines", ranges=[[-1.5, 1.5]], beside={"Neural process": "np"})
    series = odp.data.sines.sample(8, key=jr.key(0))
    save(untrained(odp.variant("np", r_dim=8, z_dim=8, l_dim=8, h_dim=8), series), folder / "np")
    return folder


def prey_folder(root: Path) -> Path:
    """An untrained model of two channels; a click adds a value of one."""
    model = untrained(odp.variant("ndp", **PREY_SIZES), odp.data.lotka_volterra.sample(8, key=jr.key(0)))
    return save(model, root / "prey", title="Predators and prey", values=["prey", "predators"])


def table_folder(root: Path) -> Path:
    """An untrained forecaster's model: the logarithm of one column, a number and a category for each series."""
    table_cases.untrained().save(root / "table")
    return root / "table"


# Names that would do harm as code, HTML, mathematics, a format string or a path.
ATTACKS = (
    *(
        '"); open("canary", "w"); figure.savefig("',
        "'); open('canary', 'w'); ('",
        '"""\nopen("canary", "w")\n"""',
        "\\",
        "\\'",
        '\\"',
        "'",
        '"',
    ),
    *("# \nopen('canary', 'w')", "\r\nopen('canary', 'w')#", "{0}", "{folder}", "{{", "}", "%s%n", "${HOME}", "`touch canary`"),
    *("$", "a$b", "cost_$", "$\\frac{", "$$x$$", "\\(x\\)", "<img src=x onerror=\"window.hacked='yes'\">", "{{ 7 * 7 }}"),
    *("</script><script>window.hacked='yes'</script>", "&amp;", "=cmd|' /C calc'!A0", "-rf", "..", " ", "\t", "\x1b[31m", "\x7f"),
    *("\u202egnp", "é\u0301", "名前", "\u2028", "\udcff", "con", "a" * 200),
)


def odd_folder(root: Path) -> Path:
    """A model whose folder, title and columns have names that would do harm as code, HTML or mathematics."""
    code, markup = ATTACKS[0], "<img src=x onerror=\"window.hacked='yes'\">"
    model = untrained(odp.variant("ndp", **PREY_SIZES), odp.data.lotka_volterra.sample(8, key=jr.key(0)))
    folder = save(
        model, root / code, title=f"Odd {markup}", about=markup, time="$t$", values=[markup, "$$cost_$$"], beside={markup: code}
    )
    save(model, folder / code, title=code)
    return folder
