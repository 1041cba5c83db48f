"""Writes `docs/accuracy.md`: text from the template `report.md`, tables and a figure from `accuracy.json`."""

from importlib import resources
from pathlib import Path
from typing import Any

from odeprocess.common.storage import replace_file, replacing
from odeprocess.experiments.paper.figures import plt
from odeprocess.experiments.result_files import read_record

from .result_rows import BASELINES

COLOURS = {  # of the models in the figure, in the order of the tables' columns
    "default": "#c2410c",
    "default-amortised": "#fdba74",
    "gp-series": "#1d4ed8",
    "gp-shared": "#60a5fa",
    "gp-oracle": "#a5b4fc",
    "latent-ode": "#15803d",
    "anp": "#86efac",
    "paper-ndp": "#4b5563",
    "paper-np": "#9ca3af",
}
MODELS = tuple(COLOURS)


class Scores:
    """The rows of the record, found by task, noise, split, context, variant and metric."""

    def __init__(self, rows: list[dict[str, Any]]):
        self.rows = {(r["task"], r["noise"], r["split"], r["context"], r["variant"], r["metric"]): r for r in rows}

    def mean(self, *key: Any) -> float | None:
        """The mean of a row, or `None` where there is none."""
        return self.rows[key]["mean"] if key in self.rows else None

    def tasks(self) -> list[tuple[str, float]]:
        """Pairs of task and noise on which the default model was scored."""
        return list(dict.fromkeys((key[0], key[1]) for key in self.rows if key[4] == "default"))

    def cells(self, task: str, noise: float) -> list[tuple[str, int]]:
        """Pairs of split and number of given points, in order."""
        return list(dict.fromkeys((k[2], k[3]) for k in self.rows if k[:2] == (task, noise) and k[4] == "default"))

    def verdict(self, task: str, noise: float, split: str, context: int) -> str:
        """The comparison of the default model with both Gaussian processes, by differences over the same series.

        `won`: lower squared error and higher log density than both. `level`: not won, but behind by less than two standard errors
        at most. `tied`: all squared errors are under 1e-6. `lost`: anything else.
        """
        found = []
        for baseline in BASELINES:
            rows = [
                self.rows.get((task, noise, split, context, f"default against {baseline}", m)) for m in ("mse", "log_likelihood")
            ]
            if None in rows:
                return "–"  # the baseline was not run
            error, density = rows
            assert error is not None and density is not None
            if error["tie"]:
                found.append("tied")
            elif error["mean"] < 0 < density["mean"]:
                found.append("won")
            else:
                close = error["mean"] < 2 * error["stderr"] and density["mean"] > -2 * density["stderr"]
                found.append("level" if close else "lost")
        return next(v for v in ("lost", "level", "tied", "won") if v in found)


def write_scoreboard(results: Path, to: Path) -> Path | None:
    """Writes `accuracy.md` and its figure into `to`, and returns its path; `None` without a record."""
    record = read_record(results / "accuracy.json")
    if record is None or not record["rows"]:
        return None
    scores = Scores(record["rows"])
    sections = "\n\n".join(_make_section(scores, task, noise) for task, noise in scores.tasks())
    verdicts = [scores.verdict(*task, *cell) for task in scores.tasks() for cell in scores.cells(*task)]
    verdicts = [verdict for verdict in verdicts if verdict != "–"]
    verdict_counts = ", ".join(f"{v} {verdicts.count(v)}" for v in ("won", "level", "tied", "lost"))
    series = sorted({row["series"] for row in record["rows"] if row["series"] is not None})
    seeds = sorted({row["seeds"] for row in record["rows"]})
    runs = f"{seeds[0]} to {seeds[-1]} training runs" if len(seeds) > 1 else f"{seeds[0]} training run(s)"
    text = resources.files("odeprocess.experiments.scoreboard").joinpath("report.md").read_text(encoding="utf-8")
    for name, value in {"VERDICTS": f"{verdict_counts} of {len(verdicts)}", "TABLES": sections}.items():
        text = text.replace(f"{{{name}}}", value)
    text = text.replace("{SERIES}", " or ".join(map(str, series))).replace("{RUNS}", runs)
    (to / "accuracy").mkdir(parents=True, exist_ok=True)
    _draw_errors(scores, to / "accuracy" / "errors.png")
    path = to / "accuracy.md"
    replace_file(path, text.encode())
    return path


def _make_section(scores: Scores, task: str, noise: float) -> str:
    lines = [f"### {_format_title(task)}, {'no noise' if noise == 0 else f'noise {noise}'}", ""]
    lines += ["| given | " + " | ".join(MODELS) + " | log density: default | gp-series | gp-shared | covered | |"]
    lines += ["|---" * (len(MODELS) + 6) + "|"]
    for split, context in scores.cells(task, noise):
        errors = [_format_number(scores.mean(task, noise, split, context, v, "mse"), "{:.1e}") for v in MODELS]
        density = [
            _format_number(scores.mean(task, noise, split, context, v, "log_likelihood"), "{:.2f}")
            for v in ("default", *BASELINES)
        ]
        covered = _format_number(scores.mean(task, noise, split, context, "default", "coverage90"), "{:.0%}")
        where = f"{context}" if split == "interpolation" else f"first {context}"
        lines.append(f"| {where} | {' | '.join(errors + density)} | {covered} | {scores.verdict(task, noise, split, context)} |")
    return "\n".join(lines)


def _format_title(task: str) -> str:
    return "–".join(word.capitalize() for word in task.split("-"))


def _format_number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def _draw_errors(scores: Scores, path: Path) -> None:
    tasks = scores.tasks()
    size = (9.5, 2.6 * len(tasks))
    figure, axes = plt.subplots(len(tasks), 2, figsize=size, layout="constrained", squeeze=False)
    for row, (task, noise) in zip(axes, tasks, strict=True):
        for axis, split in zip(row, ("interpolation", "forecast"), strict=True):
            for variant in MODELS:
                points = [(n, scores.mean(task, noise, s, n, variant, "mse")) for s, n in scores.cells(task, noise) if s == split]
                points = [(n, max(m, 1e-9)) for n, m in points if m is not None]
                if points:
                    axis.plot(*zip(*points, strict=True), "o-", ms=3, lw=1.2, color=COLOURS[variant], label=variant)
            axis.set(yscale="log", xscale="symlog", title=f"{_format_title(task)}, noise {noise:g}: {split}")
            given = [n for s, n in scores.cells(task, noise) if s == split]
            axis.set_xticks(given)
            axis.set_xlim(min(given) - 0.2, 1.15 * max(given))
            axis.xaxis.set_major_formatter("{x:g}")
            axis.minorticks_off()
            axis.grid(alpha=0.25)
    for axis in axes[-1]:
        axis.set_xlabel("observations given")
    for axis in axes[:, 0]:
        axis.set_ylabel("squared error")
    axes[0, 0].legend(fontsize=7)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=80)
    plt.close(figure)
