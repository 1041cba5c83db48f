"""The project itself: layers, lazy imports, the wheel."""

import ast
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "odeprocess"

# A file imports only from files that stand before it. ARCHITECTURE.md explains the order.
LAYERS = """
version checks names plain_data storage progress compilation
linear series reach scaling distributions tails
data.files data.curves data.physics data.images data.characters data
tasks
process.nets process.tableaus process.stepping process.aggregation process.encoder process.latent
process.field process.march process.cuda process.fused process.solvers process.flow
process.decoder process.images process.likelihood process.core process.assembly process.spec process.variants process
objectives metrics misfit problem peaks refine
engine record functions calibration beliefs posterior
folders heldout model diagnostics
tally ledger roster streamfile stream design
optimise epoch soap mixture polish prepare course outcome checkpoints train recipes reguess settle contest
tables.wording tables.instants tables.cells tables.texts tables.objects tables.csv_files tables.parquet_files tables.reading
tables.checking tables.long tables.columns tables.clock tables.covariates tables.transforms tables.layout
tables.choosing tables.training tables.asking tables.answers tables.evaluating tables.estimator tables
plots forecaster sktime
server.limits server.errors server.schemas server.hosted server.room server.store server.desk server.worker server.metrics
server.origins server.tokens server.bodies server.guard server.bell server.routes server.app
server.connections server.accepting server.sockets server.logs server.run server
experiments.protocol experiments.splits experiments.plan experiments.scoring experiments.store
experiments.classifier experiments.active experiments.timing experiments.gaussian experiments.baseline experiments.attentive
experiments.measure experiments.accuracy
experiments.runner experiments.rows experiments.reproduce
experiments.pictures experiments.image_pictures experiments.page experiments.scoreboard experiments
playground.theme playground.observations playground.exhibit playground.outlook playground.picture playground.reading
playground.script playground.session playground.words playground.figures playground.table playground.panes playground.starters
playground.gallery playground.page playground.visits playground.serving playground
commands.common commands.sets commands.tables commands.play commands.serving commands
cli __main__
""".split()


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> set[str]:
    """The project's modules that a file imports."""
    here, found = module_name(path).split(".") if module_name(path) else [], set()
    base = here if path.name == "__init__.py" else here[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            start = base[: len(base) - node.level + 1] + (node.module.split(".") if node.module else [])
            for alias in node.names:
                whole = ".".join([*start, alias.name])
                found.add(whole if whole in LAYERS else ".".join(start))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            assert not any(n.startswith("odeprocess") for n in names), f"{path.name}: import relatively inside the package"
    return found


FILES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


def test_every_file_has_its_layer():
    assert {module_name(p) for p in FILES} == set(LAYERS)


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_files_import_only_from_earlier_layers(path):
    place = LAYERS.index(module_name(path))
    late = {name for name in imported(path) if LAYERS.index(name) >= place}
    assert not late, f"{module_name(path)} imports {late}, which come later"


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_a_file_holds_one_idea(path):
    assert len(path.read_text().splitlines()) <= 400, "files are split by idea, not by length; but so long a one holds several"


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


HEAVY = "matplotlib diffrax rich pandas polars pyarrow narwhals sktime fastapi pydantic uvicorn bokeh panel torch".split()


def test_import_is_light():
    def loaded(code):
        return run(f"import sys\n{code}\nprint(sorted({{'jax', 'equinox', *{HEAVY}}} & set(sys.modules)))").strip()

    assert loaded("import odeprocess") == "[]"
    assert loaded("import odeprocess as odp; odp.fit, odp.load, odp.Forecaster") == "['equinox', 'jax']"
    help_first = "import contextlib, odeprocess.cli\nwith contextlib.suppress(SystemExit): odeprocess.cli.app(['--help'])\n"
    assert loaded(help_first).endswith("[]")


def test_every_public_name_can_be_had_and_unknown_ones_cannot():
    import odeprocess as odp

    for name in odp.__all__:
        assert getattr(odp, name) is not None
    assert set(odp.__all__) <= set(dir(odp))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = odp.nonsense  # pyright: ignore


@pytest.mark.slow
def test_the_wheel_installs_and_works_without_extras(tmp_path):
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("odeprocess-*.whl")
    venv.create(tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    install = ["--python", python, "install", "--no-compile", "--constraint", ROOT / "constraints.txt", wheel]
    subprocess.run([*pip, *install], check=True)
    code = (
        "import jax, pathlib, odeprocess as odp; fit = odp.fit('np', odp.data.lines.sample(4, key=jax.random.key(0)), "
        "options=odp.FitOptions(epochs=1)); print((pathlib.Path(odp.__file__).parent / 'py.typed').exists(), "
        "odp.experiments.protocol('sines').epochs, fit.model.condition([1.0], [0.0], key=jax.random.key(0)).mean([2.0]).shape)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
    assert done.stdout.split() == ["True", "30", "(1,", "1)"]
    plots = subprocess.run([python, "-c", "import odeprocess; odeprocess.plots"], capture_output=True, text=True, cwd=tmp_path)
    assert "pip install 'odeprocess[plots]'" in plots.stderr
