"""Training times on sines by the paper's protocol: every variant of ours and the PyTorch reference, in turn in one process."""

import statistics
import time
from typing import Any

from .timing import Setting, make_sines, pin_to_cores

SNAPSHOTS = (0, 1, 3, 10, 30)  # epochs after which the reference is timed: its solver takes more steps as its field is trained
SEEDS = 5
ADAPTIVE_EPOCHS = 3


def measure_training(setting: Setting) -> list[dict]:
    """Seconds of 30 epochs. On CPUs ours and the reference run on the same single core."""
    if not setting.gpu:
        pin_to_cores(1)
    protocol, series = make_sines(setting)
    names = ["np", "ndp"] if setting.quick else ["np", "ndp", "nd2p", "ndp-l", "nd2p-l", "np-residual"][: 5 if setting.gpu else 6]
    compiling, parameters, seconds = {}, {}, {name: [] for name in names}
    for name in names:
        fit = protocol.fit(name, series, seeds=0)
        compiling[name], parameters[name] = fit.compile_seconds, fit.model.num_parameters
    peers = make_references(setting, protocol, series)
    for repeat in range(setting.choose_count(2 if setting.gpu else 3)):
        for name in names:
            seconds[name].append(protocol.fit(name, series, seeds=repeat + 1).train_seconds)
        for peer in peers:
            peer.measure(setting.choose_count(4 if setting.gpu else 10))
    ours = {name: statistics.median(times) for name, times in seconds.items()}
    theirs = {peer.name: peer.seconds(protocol.epochs, protocol.train // protocol.batch_size) for peer in peers}
    common = {"benchmark": "train", "task": "sines", "batch": protocol.batch_size, "epochs": protocol.epochs}
    rows = []
    for name in names:
        peer = theirs.get("reference np" if name.startswith("np") else "reference ndp")
        row = {**common, "model": name, "seconds": ours[name], "seconds_all": seconds[name], "parameters": parameters[name]}
        row |= {"compile_seconds": compiling[name], "ratio_to_np": ours[name] / ours["np"]}
        if peer is not None and name in ("np", "ndp"):
            row["ratio_to_reference"] = peer / ours[name]
        if name == "ndp" and "reference ndp, tuned" in theirs:
            row["ratio_to_tuned_reference"] = theirs["reference ndp, tuned"] / ours[name]
        rows.append(row)
    for peer in peers:
        row = {**common, "model": peer.name, "seconds": theirs[peer.name], "extrapolated": True, "steps": len(peer.all_steps)}
        rows.append({**row, "ms_a_step_by_epoch": peer.by_epoch(), "ratio_to_np": theirs[peer.name] / theirs["reference np"]})
    return rows


def measure_adaptive_solver(setting: Setting) -> list[dict]:
    """Seconds of 30 epochs of our NDP with Diffrax's adaptive steps and with fixed steps, extrapolated from a few epochs."""
    import odeprocess as odp

    if not setting.gpu:
        pin_to_cores(1)
    protocol, series = make_sines(setting)
    short = protocol.replace(epochs=setting.choose_count(ADAPTIVE_EPOCHS + 1, 2))
    found = {}
    for name, solver in (("grid", odp.Grid()), ("diffrax", odp.Adaptive())):
        fit = short.fit(protocol.spec("ndp", solver=solver), series)
        found[name] = fit.compile_seconds, statistics.median(fit.history.seconds[1:]) * protocol.epochs
    row = {
        "benchmark": "adaptive",
        "task": "sines",
        "batch": protocol.batch_size,
        "epochs": protocol.epochs,
        "extrapolated": True,
    }
    return [
        {**row, "model": f"ndp, {name}", "seconds": s, "compile_seconds": c, "ratio_to_grid": s / found["grid"][1]}
        for name, (c, s) in found.items()
    ]


def measure_seeds(setting: Setting) -> list[dict]:
    """Seconds of training five seeds at once, and one after the other with the same compiled function."""
    protocol, series = make_sines(setting)
    rows = []
    for name in ("np", "ndp")[1 if setting.gpu or setting.quick else 0 :]:
        at_once, alone = [], []
        for repeat in range(setting.choose_count(2) + 1):
            start = SEEDS * repeat
            at_once.append(protocol.fit(name, series, seeds=list(range(start, start + SEEDS))).train_seconds)
            alone.append(sum(protocol.fit(name, series, seeds=start + i).train_seconds for i in range(SEEDS)))
        together, apart = statistics.median(at_once[1:]), statistics.median(alone[1:])
        row = {"benchmark": "seeds", "model": name, "task": "sines", "batch": protocol.batch_size, "seeds": SEEDS}
        rows.append({**row, "seconds": together, "seconds_one_by_one": apart, "ratio_to_one": SEEDS * together / apart})
    return rows


class TimedReference:
    """A reference model, timed with the weights that ours have after some epochs."""

    def __init__(self, name: str, trainers: dict[int, Any]):
        self.name, self.trainers = name, trainers
        self.times: dict[int, list[float]] = {epoch: [] for epoch in trainers}
        for trainer in trainers.values():
            trainer.step()  # warms up

    def measure(self, steps: int) -> None:
        """Times so many steps at each of the snapshots."""
        for epoch, trainer in self.trainers.items():
            for _ in range(steps):
                began = time.perf_counter()
                trainer.step()
                self.times[epoch].append(time.perf_counter() - began)

    @property
    def all_steps(self) -> list[float]:
        """Seconds of all steps."""
        return [time for times in self.times.values() for time in times]

    def by_epoch(self) -> dict[str, float]:
        """Milliseconds a step, by epoch."""
        return {str(epoch): 1e3 * statistics.median(times) for epoch, times in self.times.items()}

    def seconds(self, epochs: int, steps: int) -> float:
        """Estimated seconds of a whole training: medians of a step, interpolated linearly between the snapshots."""
        import numpy as np

        at = np.interp(np.arange(epochs) + 0.5, list(self.times), [statistics.median(x) for x in self.times.values()])
        return float(at.sum() * steps)


def make_references(setting: Setting, protocol: Any, series: Any) -> list[TimedReference]:
    """The reference's NP and NDP, and the tuned NDP; none where PyTorch is not installed."""
    import numpy as np

    try:
        import pytorch_reference as reference
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        print(f"Without the reference: {error}. Install the extra 'bench'.", flush=True)
        return []
    device = "cuda" if setting.gpu else "cpu"
    if not setting.gpu:
        torch.set_num_threads(1)
    t, y = (np.asarray(x, np.float32) for x in (series.t, series.y[..., 0]))
    tasks, peers = reference.batches(t, y, protocol.batch_size, 50, device), []
    for name, tuned in (("np", False), ("ndp", False), ("ndp", True)):
        trainers = {}
        for epoch in SNAPSHOTS[: 2 if setting.quick else None]:
            model = protocol.replace(epochs=epoch).fit(name, series).model if epoch else None
            spec = protocol.spec(name).resolve(series) if model is None else model.spec
            sizes = spec.r_dim, spec.z_dim, spec.l_dim, spec.h_dim
            peer = reference.Reference(name, sizes, spec.t0, spec.noise_start, tuned=tuned)
            process = reference.first_weights(spec) if model is None else model.process
            reference.copy_weights(peer, process)
            if not tuned:
                reference.check_same(peer, process, tasks[0])
            trainers[epoch] = reference.Trainer(peer, tasks, spec.z_dim, device)
        peers.append(TimedReference(f"reference {name}{', tuned' if tuned else ''}", trainers))
    return peers
