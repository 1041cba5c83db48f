"""Writes `docs/reproduction.md`: text from the template `report.md`, numbers from the records, figures from the runs.

In the template a section that begins with `<!-- NAME -->` appears if there is a record of that experiment. A line
`[[tasks METRIC]]` becomes a table of variants by tasks, `[[metrics METRIC: TITLE | …]]` one of variants by metrics,
`[[picture NAME: CAPTION]]` a figure.
"""

import io
import re
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from odeprocess.common.storage import replace_file
from odeprocess.experiments.result_files import read_record

LABELS = {
    "np": "NP",
    "np-residual": "NP, residual readout",
    "ndp": "NDP",
    "nd2p": "ND2P",
    "ndp-l": "NDP-L",
    "nd2p-l": "ND2P-L",
    "training-mean": "*training mean*",
    "image-np": "NP, the paper's protocol",
    "image-ndp": "NDP, the paper's protocol",
    "image-np (fresh turns)": "NP, fresh turns",
    "image-ndp (fresh turns)": "NDP, fresh turns",
    "image-ndp (restarts)": "NDP, restarts",
    "np (1000 epochs)": "NP, 1000 epochs",
    "ndp (1000 epochs)": "NDP, 1000 epochs",
    **{f"ndp (l={n})": f"NDP, dim(l) = {n}" for n in (1, 2, 5, 10, 15, 20)},
}


def write_page(folder: Path, to: Path) -> Path:
    """Writes `reproduction.md` and its figures into `to`, from the records and runs in `folder`; returns its path."""
    text = resources.files("odeprocess.experiments.paper").joinpath("report.md").read_text(encoding="utf-8")
    to.mkdir(parents=True, exist_ok=True)
    sections = []
    for section in re.split(r"(?m)^(?=## )", text):
        named = re.search(r"<!-- (\S+) -->\n", section)
        record = read_record(folder / f"{named[1]}.json") if named else {}
        if record is not None:
            section = section.replace(named[0], "") if named else section
            sections.append("\n".join(_fill(line, record, folder, to) for line in section.splitlines()))
    page = to / "reproduction.md"
    whole = re.sub(r"\n{3,}", "\n\n", "\n\n".join(section.strip() for section in sections)) + "\n"
    replace_file(page, whole.encode())
    return page


def _fill(line: str, record: dict[str, Any], folder: Path, to: Path) -> str:
    found = re.fullmatch(r"\[\[(tasks|metrics|picture) (.*)\]\]", line)
    if not found:
        return line
    kind, rest = found.groups()
    if kind == "picture":
        name, caption = rest.split(": ", 1)
        return _add_picture(name, caption, record, folder, to)
    if kind == "tasks":
        tasks = list(dict.fromkeys(row["task"] for row in record["rows"]))
        return _make_table(record, [(task, (task, rest)) for task in tasks])
    task = record["rows"][0]["task"] if record["rows"] else ""
    columns = [part.strip().split(": ", 1) for part in rest.split("|")]
    return _make_table(record, [(title, (task, metric)) for metric, title in columns])


def _make_table(record: dict[str, Any], columns: list[tuple[str, tuple[str, str]]]) -> str:
    """A table with a row for each variant; a cell holds our mean ± standard error and, in brackets, the paper's."""
    found = {(row["variant"], row["task"], row["metric"]): row for row in record["rows"]}
    wanted = {place for _, place in columns}
    variants = list(dict.fromkeys(row["variant"] for row in record["rows"] if (row["task"], row["metric"]) in wanted))
    variants.sort(key=lambda variant: variant == "training-mean")
    lines = ["| | " + " | ".join(title for title, _ in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for variant in variants:
        cells = [_format_cell(found.get((variant, *place)), record["unit"]) for _, place in columns]
        lines.append(f"| {LABELS.get(variant, variant)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _format_cell(row: dict[str, Any] | None, unit: float) -> str:
    if row is None or row["mean"] is None:
        return "–"
    scale, digits = (unit, 2) if row["metric"].startswith("mse") else (1.0, 2)
    if row["metric"].startswith("read"):
        scale, digits = 0.01, 1

    def format_error(mean: float, stderr: float | None) -> str:
        return f"{mean / scale:.{digits}f}" + (f" ± {stderr / scale:.{digits}f}" if stderr is not None else "")

    ours = format_error(row["mean"], row["stderr"]) + (" %" if row["metric"].startswith("read") else "")
    return ours if row["paper_mean"] is None else f"{ours} ({format_error(row['paper_mean'], row['paper_stderr'])})"


def _add_picture(name: str, caption: str, record: dict[str, Any], folder: Path, to: Path) -> str:
    """Draws a figure if its runs are there; otherwise the file drawn before is kept."""
    path = to / "reproduction" / f"{name}.png"
    try:
        figure = _list_figures(record, folder)[name]()
    except (KeyError, FileNotFoundError, ImportError):
        return f"![{caption}](reproduction/{name}.png)\n\n*{caption}*" if path.exists() else ""
    path.parent.mkdir(exist_ok=True)
    replace_file(path, _encode_png(figure))
    return f"![{caption}](reproduction/{name}.png)\n\n*{caption}*"


def _list_figures(record: dict[str, Any], folder: Path) -> dict[str, Callable[[], Any]]:
    """The function that draws each figure of the page."""
    from . import figures, image_figures

    runs, names = figures.Runs(folder, record), LABELS
    chosen = {f"ndp (l={n})": f"dim(l) = {n}" for n in (1, 2, 10, 20)} | {"np": "NP"}
    strips = {
        "variable-rotating-mnist": {"NP": "image-np (fresh turns)", "NDP": "image-ndp (fresh turns)"},
        "rotating-mnist": {"NP": "image-np", "NDP": "image-ndp (restarts)"},
    }

    def strip(task: str) -> Any:
        there = {variant for _, variant in record["runs"].values()}
        return image_figures.draw_strips(runs, task, {label: v for label, v in strips[task].items() if v in there})

    return {
        "sines": lambda: figures.draw_sines(runs),
        "curves-1d": lambda: figures.draw_training_curves(runs, names),
        "curves-dim": lambda: figures.draw_training_curves(runs, chosen),
        "active-learning": lambda: figures.draw_active_learning(runs),
        "lotka-volterra": lambda: figures.draw_lotka_volterra(runs),
        "curves-lotka-volterra": lambda: figures.draw_training_curves(
            runs, {"np (1000 epochs)": "NP", "ndp (1000 epochs)": "NDP"}
        ),
        "curves-handwriting": lambda: figures.draw_training_curves(runs, names),
        "letters": lambda: figures.draw_letters(runs),
        "variable-rotating-mnist": lambda: strip("variable-rotating-mnist"),
        "rotating-mnist": lambda: strip("rotating-mnist"),
        "styles": lambda: image_figures.draw_styles(runs, "variable-rotating-mnist", "image-ndp (fresh turns)"),
    }


def _encode_png(figure: Any) -> bytes:
    from odeprocess.posterior.plots import plt

    content = io.BytesIO()
    figure.savefig(content, dpi=100, pil_kwargs={"optimize": True})
    plt.close(figure)
    return content.getvalue()
