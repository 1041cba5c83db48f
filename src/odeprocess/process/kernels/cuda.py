"""The fused kernel: CUDA C++ that is compiled by `nvcc` on first use, kept in a cache, and called through JAX's FFI.

A library is made for one shape of network, one Runge–Kutta method and one tile (how many trajectories a block takes):
sizes that are known when compiling let every product be unrolled into registers.

Measured on an H200 (`benchmarks/cuda_kernel.py`, `results/kernel-h200.json`), the NDP of the paper's sizes over one horizon of 8
steps of order 5, forward and back, against the same grid unrolled by XLA: 0.22 ms for 0.95 at batch 1024, 0.43 for 1.49 at 4096.
Of that last the two kernels take 0.41 ms, 4.9 times what their products would take at the rate of a large float32 matrix product
(51 TFLOP/s); with the layers before and the polynomials after it is 5.2 times. Values are off by 1e-7 and gradients by 6e-7 of
float64's, as are those of the grid if its products are full float32. With JAX's default precision the grid is off by 2e-4 and
1e-3, and even the fused integration by 1e-4 and 7e-4: the layers before the kernel are then not full either.

A profile of the way back showed warps waiting for shared memory and for instructions, with code of 150 KB. Values without
branches around padding, loops over stages that stay loops, a fast division and weights loaded several at a time came
together: the way forward took a third less, the way back a seventh. Which of them did it was not measured apart. Two smaller
blocks on a processor were no faster than one, and keeping weights in registers on the way back gains 2 to 4 %.
"""

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from odeprocess.process.runge_kutta import TABLEAUS

SOURCES = Path(__file__).parent
TILES = (4, 8, 16, 32)  # trajectories of a block
WIDEST = 128
SHARED_KIB = {"7.0": 96, "8.0": 163, "8.7": 163, "9.0": 227, "10.0": 227}  # for a block, by compute capability; else 99


class Network(NamedTuple):
    """The sizes of `Layers`."""

    state: int
    width: int
    out: int
    skip: bool

    @classmethod
    def of(cls, first, second, last, offset, skip_offset, l0) -> "Network":
        """The sizes of these arrays."""
        return cls(l0.shape[-1], offset.shape[-1], last.shape[-2], skip_offset.shape[-1] > 0)

    def shared_bytes(self, tile: int, stages: int) -> int:
        """Shared memory of a block on the way back, which needs the most; the kernel has the same sum."""

        def up(n):
            return -(-n // 4) * 4

        def apart(n):
            return up(n) + 4 * (up(n) // 4 % 2 == 0)

        x, y, v, tall = up(self.state + 1), up(self.width + 1), up(self.out), up(self.width)
        weights = tall * (apart(x) + 2 * apart(y) + apart(v)) + up(self.state) * apart(y + self.skip * v)
        return 4 * (weights + tile * (stages * (apart(2 * y + x) + apart(2 * y + v)) + (tall | 1)))


def source(network: Network, order: int, tile: int) -> str:
    """What the kernels include first: sizes and the method."""
    method = TABLEAUS[order]
    stages = len(method.nodes)

    def numbers(values):
        return "{" + ", ".join(f"{x!r}f" for x in values) + "}"

    rows = [(*row, *[0.0] * (stages - len(row))) for row in (*method.rows, method.weights)]
    return (
        f"#define STATE {network.state}\n#define WIDTH {network.width}\n#define OUT {network.out}\n"
        f"#define SKIP {int(network.skip)}\n#define TILE {tile}\n#define STAGES {stages}\n"
        f"#define NODES {numbers(method.nodes)}\n#define ROWS {{{', '.join(map(numbers, rows))}}}\n"
    )


def available(network: Network) -> bool:
    """Whether these sizes fit, on the GPU that there is; `nvcc` has to be there too."""
    fits = network.width <= WIDEST and network.state in (network.out, 2 * network.out)
    return fits and _gpu() is not None and _compiler() is not None and bool(_tiles(network, 5))


def runge_kutta_steps(*arguments: Any, step_grid: Any) -> tuple | None:
    """The steps by the kernel, or `None` where it cannot be made; see `fused` for what goes in and out."""
    l0, stages = arguments[5], len(TABLEAUS[step_grid.order].nodes)
    groups, batch, state = l0.shape
    tile, blocks = _plan(Network.of(*arguments[:6]), step_grid.order, groups, batch)
    library = _library(Network.of(*arguments[:6]), step_grid.order, tile)
    if library is None:
        return None
    shapes = [(groups, batch, step_grid.count + 1, state), (groups, batch, step_grid.count * stages + 1, state)]
    return tuple(_call(f"odeprocess_runge_kutta_{library}", shapes, arguments, step_grid, blocks))


def pull(*arguments: Any, step_grid: Any, weights: bool) -> tuple | None:
    """The way back by the kernel; every block sums gradients of the weights over its trajectories, and XLA sums blocks."""
    network = Network.of(*arguments[:6])
    groups, batch, _ = arguments[5].shape
    tile, blocks = _plan(network, step_grid.order, groups, batch)
    library = _library(network, step_grid.order, tile)
    if library is None:
        return None
    inputs = [x.shape for x in arguments[:3]]
    sizes = [shape[1] * shape[2] for shape in inputs]
    shapes = [(groups, blocks * weights, sum(sizes)), *(x.shape for x in arguments[3:6])]
    found, *own = _call(f"odeprocess_pull_{library}", shapes, arguments, step_grid, blocks)
    if not weights:
        return tuple(own)
    parts = jnp.split(found.sum(1), [sizes[0], sizes[0] + sizes[1]], axis=1)
    return (*(part.reshape(shape) for part, shape in zip(parts, inputs, strict=True)), *own)


def _call(name, shapes, arguments, step_grid, blocks):
    results = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    how = {"t0": np.float32(step_grid.t0), "step": np.float32(step_grid.step), "count": np.int32(step_grid.count)}
    return jax.ffi.ffi_call(name, results)(*arguments, **how, blocks=np.int32(blocks))


def _plan(network, order, groups, batch):
    """How many trajectories a block takes, and how many blocks a group has.

    A step's time hardly depends on the tile until the GPU is full, so the smallest that fills it is taken.
    """
    cores, tiles = _gpu().core_count, _tiles(network, order)
    tile = next((n for n in tiles if groups * -(-batch // n) <= cores), tiles[-1])
    return tile, min(-(-batch // tile), max(1, 2 * cores // groups))


def _tiles(network, order):
    limit = 1024 * SHARED_KIB.get(_gpu().compute_capability, 99)
    return [n for n in TILES if network.shared_bytes(n, len(TABLEAUS[order].nodes)) <= limit]


@functools.cache
def _gpu() -> Any:
    """The NVIDIA GPU that JAX uses, or `None`."""
    device = jax.devices()[0]
    return device if device.platform == "gpu" and "cuda" in device.client.platform_version.lower() else None


@functools.cache
def _compiler() -> str | None:
    homes = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    return shutil.which("nvcc") or shutil.which("nvcc", path=os.pathsep.join(f"{home}/bin" for home in homes if home))


@functools.cache
def _library(network: Network, order: int, tile: int) -> str | None:
    """The name under which the kernels for these sizes are registered; they are compiled if the cache does not have them."""
    arch = "sm_" + _gpu().compute_capability.replace(".", "")
    sizes = source(network, order, tile)
    texts = [sizes, arch, jax.__version__, *(path.read_text() for path in sorted(SOURCES.iterdir()))]
    name = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
    place = Path(os.environ.get("ODEPROCESS_CACHE") or Path.home() / ".cache" / "odeprocess") / "kernels" / f"{name}.so"
    if not place.exists():
        problem = _compile(sizes, arch, place)
        if problem:
            warnings.warn(f"The fused kernel could not be compiled, so the grid's steps run one by one. {problem}", stacklevel=2)
            return None
    library = ctypes.CDLL(str(place))
    for kind in ("runge_kutta", "pull"):
        target = jax.ffi.pycapsule(getattr(library, f"odeprocess_{kind}"))
        jax.ffi.register_ffi_target(f"odeprocess_{kind}_{name}", target, platform="CUDA")
    return name


def _compile(sizes: str, arch: str, place: Path) -> str | None:
    """Writes the library to `place` in one step; returns what went wrong."""
    flags = [
        "-O3",
        "-std=c++17",
        "-shared",
        "-Xcompiler",
        "-fPIC",
        "--expt-relaxed-constexpr",
        "-ftz=true",
        "-w",
        f"-arch={arch}",
    ]
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as folder:
            header, built = Path(folder, "sizes.h"), Path(folder, "built.so")
            header.write_text(sizes)
            paths = ["-include", str(header), "-I", jax.ffi.include_dir(), "-o", str(built), str(SOURCES / "binding.cu")]
            done = subprocess.run([str(_compiler()), *flags, *paths], capture_output=True, text=True)
            if done.returncode:
                return done.stderr.strip()[-2000:]
            built.replace(place)
    except OSError as error:
        return str(error)
    return None
