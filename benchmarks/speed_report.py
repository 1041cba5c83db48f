"""Writes `docs/speed.md`: text from the template `speed_report.md`, tables and figures from `results/speed.json`."""

import json
from pathlib import Path
from typing import Any

KERNEL = Path(__file__).parent.parent / "results" / "kernel-h200.json"
Rows = list[dict[str, Any]]
DEVICES = {"cpu": "CPU", "gpu": "H200"}
COLOURS = {"cpu": "#c2410c", "gpu": "#1d4ed8"}


def write_page(rows: Rows, to: Path) -> Path:
    """Writes `speed.md` and its figures into `to`; returns its path."""
    text = Path(__file__).with_name("speed_report.md").read_text(encoding="utf-8")
    devices = [device for device in DEVICES if any(row["device"] == device for row in rows)]
    sections = {
        "TRAINING": tabulate_training,
        "ROOFLINE": tabulate_roofline,
        "LATENCY": tabulate_latency,
        "START": tabulate_cold_start,
        "BATCH": tabulate_batches,
        "CHUNKS": tabulate_chunks,
    }
    for name, tabulate in sections.items():
        tables = [(device, tabulate([row for row in rows if row["device"] == device])) for device in devices]
        found = [f"**{describe_device(rows, device)}**\n\n{table}" for device, table in tables if table]
        text = text.replace(f"{{{name}}}", "\n\n".join(found) or "Not measured yet.")
    text = text.replace(
        "{KERNEL}", tabulate_kernel(json.loads(KERNEL.read_text())["rows"]) if KERNEL.exists() else "Not measured yet."
    )
    (to / "speed").mkdir(parents=True, exist_ok=True)
    draw_training(rows, devices, to / "speed" / "training.png")
    draw_scaling(rows, devices, to / "speed" / "scaling.png")
    path = to / "speed.md"
    path.write_text(text, encoding="utf-8")
    return path


def describe_device(rows: Rows, device: str) -> str:
    """A device and the version of JAX."""
    row = next(row for row in rows if row["device"] == device)
    kind = row["kind"] if device == "gpu" else "A CPU"
    return f"{kind}, JAX {row['jax']}"


def select(rows: Rows, benchmark: str) -> Rows:
    """The rows of one benchmark."""
    return [row for row in rows if row["benchmark"] == benchmark]


def tabulate_training(rows: Rows) -> str:
    """A table of training times of ours and of the reference."""
    lines = []
    for row in select(rows, "train") + select(rows, "adaptive"):
        peer, tuned = row.get("ratio_to_reference"), row.get("ratio_to_tuned_reference")
        faster = "" if peer is None else f"{peer:.3g} ×" + ("" if tuned is None else f" ({tuned:.0f} × the tuned one)")
        over = f"{row['ratio_to_np']:.1f}" if "ratio_to_np" in row else ""
        compiling = f"{row['compile_seconds']:.1f} s" if "compile_seconds" in row else ""
        steps = row["seconds"] / row["epochs"] / 98
        lines.append((row["model"], format_duration(row["seconds"]), format_duration(steps), over, faster, compiling))
    return make_table(("", "30 epochs", "a step", "over its NP", "faster than the reference", "compiling"), lines)


def tabulate_roofline(rows: Rows) -> str:
    """A table of training steps beside their roofline, and the machine's rates."""
    measured = {(r["model"], r["batch"]): r["seconds"] for r in select(rows, "batch")}
    measured |= {(r["model"], 5): r["seconds"] / r["epochs"] / 98 for r in select(rows, "train")}
    lines = []
    for row in select(rows, "roofline"):
        taken = measured.get((row["model"], row["batch"]))
        if taken is not None:
            flops, over = f"{row['flops'] / 1e6:.0f} MFLOP", f"{taken / row['seconds']:.1f}"
            lines.append((row["model"], str(row["batch"]), flops, format_duration(row["seconds"]), format_duration(taken), over))
    for row in select(rows, "machine"):
        rate, moved, launch = row["flops_a_second"] / 1e9, row["bytes_a_second"] / 1e9, row["launch_seconds"]
        table = make_table(("", "batch", "work", "roofline", "measured", "ratio"), lines)
        rates = f"{rate:,.0f} GFLOP/s in a large product, {moved:,.0f} GB/s in a copy"
        return f"{table}\n\nThe machine: {rates}, {format_duration(launch)} for the smallest operation in a loop."
    return ""


def tabulate_latency(rows: Rows) -> str:
    """A table of calls about one series."""
    lines = [
        (row["what"], format_duration(row["seconds"]), format_duration(row["compile_seconds"])) for row in select(rows, "latency")
    ]
    return make_table(("", "time", "compiling"), lines)


def tabulate_cold_start(rows: Rows) -> str:
    """A table of whole processes."""
    lines = []
    for row in select(rows, "start"):
        what = f"{row['model']}: {row['what']}" if "model" in row else row["what"]
        parts = [format_duration(row[f"{name}_seconds"]) if "model" in row else "" for name in ("compile", "predict")]
        lines.append((what, format_duration(row["seconds"]), *parts))
    return make_table(("", "the whole process", "of it, compiling `fit`", "first prediction"), lines)


def tabulate_batches(rows: Rows) -> str:
    """A table of training steps by batch size."""
    lines = []
    for row in select(rows, "batch"):
        memory = row["device_gib"] or row["peak_gib"]
        each = format_duration(row["seconds"] / row["batch"])
        lines.append((row["model"], str(row["batch"]), format_duration(row["seconds"]), each, f"{memory:.2f} GiB"))
    return make_table(("", "batch", "a step", "a series", "peak memory"), lines)


def tabulate_chunks(rows: Rows) -> str:
    """A table of predictions for many series in chunks."""
    lines = []
    for row in select(rows, "stream"):
        memory = f"{row['peak_gib']:.2f} GiB" if "peak_gib" in row else "as above"
        rate = f"{row['series'] / row['seconds']:,.0f}"
        lines.append((f"{row['series']:,}", format_duration(row["seconds"]), rate, memory))
    return make_table(("series", "time", "series a second", "peak memory"), lines)


def tabulate_kernel(rows: Rows) -> str:
    """A table of the fused integration, forward and backward, beside unrolled fixed steps; and of whole training steps."""
    names = {"integration-forward-backward": "integration, forward and backward", "training-step": "a training step"}
    lines = []
    for row in rows:
        if row["benchmark"] in names and row["solver"] == "fused":
            same = [r for r in select(rows, row["benchmark"]) if r["batch"] == row["batch"]]
            other = next(r["seconds"] for r in same if r["solver"] == "unrolled")
            over = f"{row['ratio_to_floor']:.1f}" if "ratio_to_floor" in row else ""
            faster = f"{other / row['seconds']:.1f} ×"
            both = format_duration(row["seconds"]), format_duration(other)
            lines.append((names[row["benchmark"]], str(row["batch"]), *both, faster, over))
    return make_table(("", "batch", "fused", "unrolled grid", "faster", "over the floor"), lines)


def make_table(head: tuple[str, ...], lines: list[tuple[str, ...]]) -> str:
    """A table in Markdown; empty without lines."""
    if not lines:
        return ""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ("---",) * len(head), *lines))


def format_duration(seconds: float) -> str:
    """A time in a suitable unit."""
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms"), (120.0, 1.0, "s"), (7200.0, 1 / 60, "min")):
        if seconds < limit:
            return f"{factor * seconds:.3g} {unit}"
    return f"{seconds / 3600:.3g} h"


def draw_training(rows: Rows, devices: list[str], path: Path) -> None:
    """Draws the times of thirty epochs of every model as bars."""
    from odeprocess.experiments.paper.figures import plt

    figure, axes = plt.subplots(1, len(devices), figsize=(4.6 * len(devices), 3.4), layout="constrained", squeeze=False)
    for axis, device in zip(axes[0], devices, strict=True):
        found = [row for row in select(rows, "train") + select(rows, "adaptive") if row["device"] == device]
        found = sorted((row for row in found if row["model"] != "ndp, grid"), key=lambda row: row["seconds"])
        if not found:
            continue
        colours = ["#9ca3af" if row["model"].startswith("reference") else COLOURS[device] for row in found]
        bars = axis.barh([row["model"] for row in found], [row["seconds"] for row in found], color=colours)
        axis.bar_label(bars, [format_duration(row["seconds"]) for row in found], fontsize=7, padding=2)
        axis.set(xscale="log", title=f"{DEVICES[device]}: training on sines, 30 epochs", xlabel="seconds")
        axis.set_xlim(right=5 * found[-1]["seconds"])  # room for the labels
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_scaling(rows: Rows, devices: list[str], path: Path) -> None:
    """Draws time against size on logarithmic axes, with lines of slope one."""
    from odeprocess.experiments.paper.figures import plt

    kinds = {
        "batch": ("batch", "series in a batch", "training step"),
        "dim(l)": ("l_dim", "dim(l)", "training step, batch 5"),
        "context": ("points", "points given", "condition, one series"),
        "targets": ("points", "times asked", "predict, one series, 64 draws"),
        "stream": ("series", "series", "predict, 100 times × 16 draws"),
    }
    figure, axes = plt.subplots(1, len(kinds), figsize=(3.1 * len(kinds), 2.9), layout="constrained")
    for axis, (benchmark, (size, label, title)) in zip(axes, kinds.items(), strict=True):
        for device in devices:
            found = [r for r in select(rows, benchmark) if r["device"] == device and r["model"] == "ndp"]
            if found:
                axis.plot(
                    [r[size] for r in found], [r["seconds"] for r in found], "o-", color=COLOURS[device], label=DEVICES[device]
                )
                last = found[-1]
                line = [last["seconds"] * r[size] / last[size] for r in found]
                axis.plot([r[size] for r in found], line, ":", color=COLOURS[device], lw=1)
        axis.set(xscale="log", yscale="log", xlabel=label)
        axis.set_title(title, fontsize=9)
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("seconds")
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=90)
    plt.close(figure)
