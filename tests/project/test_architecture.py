"""The project itself: the order of packages, lazy imports, the wheel."""

import ast
import graphlib
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "odeprocess"

# A package imports only from packages that stand before it; streaming and training not from each other.
PACKAGES = "common data process inference posterior training streaming forecasting experiments serving cli".split()
APART = {("streaming", "training")}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = sorted(p for p in PACKAGE.rglob("*.py") if p.parent != PACKAGE)
MODULES = {module_name(p) for p in FILES}


def imported(path: Path) -> set[str]:
    """The project's modules that a file imports: siblings with a dot, those of other packages by their full name."""
    here, found = module_name(path).split("."), set()
    base = here if path.name == "__init__.py" else here[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            assert node.level == 1, f"{path}: import from other packages by their full name"
            start = [*base, *(node.module or "").split(".")] if node.module else base
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("odeprocess."):
            start = (node.module or "").split(".")[1:]
            assert start[:-1] != base or not base, f"{path}: import siblings with a dot"
        else:
            continue
        names = {".".join([*start, alias.name]) for alias in node.names}
        found |= {name if name in MODULES else ".".join(start) for name in names}
    return found


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_packages_import_only_from_earlier_ones(path):
    package = module_name(path).partition(".")[0]
    for name in imported(path):
        other = name.partition(".")[0]
        if other in PACKAGES:
            assert PACKAGES.index(other) <= PACKAGES.index(package), f"{module_name(path)} imports {name}, of a later package"
            assert (package, other) not in APART, f"{module_name(path)} imports {name}"


def test_files_do_not_import_each_other_in_a_circle():
    edges = {module_name(path): imported(path) & MODULES - {module_name(path)} for path in FILES}
    # A file of a package may import a sibling, which loads the package's `__init__` on the way: that is no edge.
    graphlib.TopologicalSorter(edges).prepare()


def test_every_package_says_what_it_may_import():
    for package in PACKAGES:
        text = ast.get_docstring(ast.parse((PACKAGE / package / "__init__.py").read_text())) or ""
        assert "mport" in text, f"{package}/__init__.py does not say what the package may import"
        for other in PACKAGES[PACKAGES.index(package) :]:
            assert f"`{other}`" not in text or "not `" in text or "every package but" in text


def test_tests_mirror_the_source():
    folders = {path.name for path in (ROOT / "tests").iterdir() if list(path.glob("test_*.py"))}
    assert folders == {*PACKAGES, "project"}


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


HEAVY = "matplotlib diffrax rich pandas polars pyarrow narwhals sktime fastapi pydantic uvicorn bokeh panel torch".split()


def test_import_is_light():
    def loaded(code):
        return run(f"import sys\n{code}\nprint(sorted({{'jax', 'equinox', *{HEAVY}}} & set(sys.modules)))").strip()

    assert loaded("import odeprocess") == "[]"
    assert loaded("import odeprocess as odp; odp.fit, odp.load, odp.Forecaster") == "['equinox', 'jax']"
    help_first = (
        "import contextlib, odeprocess.cli.app\nwith contextlib.suppress(SystemExit): odeprocess.cli.app.app(['--help'])\n"
    )
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
        "import jax, pathlib, odeprocess as odp; fit = odp.fit(odp.data.lines.sample(4, key=jax.random.key(0)), 'np', "
        "options=odp.FitOptions(epochs=1)); print((pathlib.Path(odp.__file__).parent / 'py.typed').exists(), "
        "odp.experiments.protocol('sines').epochs, fit.model.condition([1.0], [0.0], key=jax.random.key(0)).mean([2.0]).shape)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
    assert done.stdout.split() == ["True", "30", "(1,", "1)"]
    plots = subprocess.run([python, "-c", "import odeprocess; odeprocess.plots"], capture_output=True, text=True, cwd=tmp_path)
    assert "pip install 'odeprocess[plots]'" in plots.stderr
