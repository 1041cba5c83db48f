"""Nothing waits for ever: what is compiled never calls LAPACK with a batch (see `odeprocess.common.linear_algebra`)."""

import os
import re
import subprocess
import sys
from pathlib import Path

EVERYTHING = """
import jax, numpy as np, odeprocess as odp
series = odp.data.sines.sample(60, key=jax.random.key(0))
options = odp.FitOptions(epochs=2, em_epochs=2, batch_size=30)
found = odp.fit(series, "ndp-skip", options=options, seeds=[0, 1], progress=False)
posterior = found.model.condition(np.array([[0.0, 1.0]] * 3), np.zeros((3, 2)), key=jax.random.key(0), draws=8, inference="exact")
posterior.interval(np.linspace(-1, 1, 5))
odp.suggest(posterior, np.linspace(-1, 1, 5))
print(float(found.model.process.prior.chol[0, 0]))
"""
CALL = re.compile(r"custom_call @((?:lapack|blas)_\w+)\((?:.*?)\) .*?: \(tensor<([\dx]+)x[a-z]\w*>")


def batched_calls(folder: Path) -> set[str]:
    """The calls of LAPACK in dumped programs whose matrices come in a batch of more than one."""
    found, programs = set(), list(folder.glob("*.mlir"))
    assert programs
    for program in programs:
        for name, shape in CALL.findall(program.read_text()):
            *batch, _, _ = (int(n) for n in shape.split("x"))
            if any(n > 1 for n in batch):
                found.add(f"{name} {shape} in {program.name}")
    return found


def dumped(script: str, folder: Path) -> set[str]:
    environment = {**os.environ, "JAX_DUMP_IR_TO": str(folder), "JAX_PLATFORMS": "cpu", "JAX_ENABLE_COMPILATION_CACHE": "0"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, timeout=1800, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return batched_calls(folder)


def test_the_check_sees_batches(tmp_path):
    script = "import jax, jax.numpy as jnp; jax.jit(jnp.linalg.qr)(jnp.ones((3, 4, 4)))"
    assert dumped(script, tmp_path)


def test_training_refining_and_suggesting_call_lapack_with_one_matrix_at_a_time(tmp_path):
    assert not dumped(EVERYTHING, tmp_path)
