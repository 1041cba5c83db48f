"""The floor: what one training step must multiply and move, over what this machine does in a large product and a large copy."""

from .common import Setting, median_of, pin, sines

POINTS = 15  # the most that a task on sines has


def floor(setting: Setting) -> list[dict]:
    """For the NP and the NDP, at the paper's batch and at large ones; on CPUs on one core."""
    import odeprocess as odp

    if not setting.gpu:
        pin(1)
    rate, bandwidth, launch = matmul_rate(setting), copy_rate(setting), launch_seconds(setting)
    machine = {"benchmark": "machine", "flops_a_second": rate, "bytes_a_second": bandwidth, "launch_seconds": launch}
    rows: list[dict] = [machine]
    protocol, series = sines(setting)
    for name in ("np", "ndp"):
        spec = protocol.spec(name).resolve(series)
        for batch in (5, 1024, 4096):
            flops, moved = 3 * batch * forward_flops(spec, odp.process.solvers.TABLEAUS), 6 * 4 * num_parameters(spec)
            row = {"benchmark": "floor", "task": "sines", "model": name, "batch": batch, "flops": flops, "bytes": moved}
            rows.append({**row, "seconds": flops / rate + moved / bandwidth})
    return rows


def forward_flops(spec, tableaus) -> int:
    """Multiplications and additions of one series in one step forward; back takes twice as many."""
    r, z, l, h = spec.r_dim, spec.z_dim, spec.l_dim, spec.h_dim
    encoder = POINTS * (2 * h + h * h + h * r)
    heads = 2 * (r * h + h * 2 * z)
    if spec.dynamics == "none":
        return 2 * (encoder + heads + z * h + POINTS * (h + h * h + 2 * h))
    stages = len(tableaus[spec.solver.order].nodes) * spec.solver.steps + 1
    flow = (z - l) * h + stages * (l * h + h * h + h * l)
    decoder = (z - l) * h + POINTS * (l * h + 2 * h * h + 2 * (l + h))
    return 2 * (encoder + heads + flow + decoder)


def num_parameters(spec) -> int:
    """Weights and biases of a process."""
    import jax
    import jax.random as jr

    return sum(x.size for x in jax.tree.leaves(spec.build(key=jr.key(0))))


def matmul_rate(setting: Setting) -> float:
    """Operations a second in a large product of full float32 precision."""
    import jax
    import jax.numpy as jnp

    n = 256 if setting.quick else 8192 if setting.gpu else 2048
    a = jnp.ones((n, n))
    product = jax.jit(lambda a: jnp.dot(a, a, precision="highest"))
    return 2 * n**3 / median_of(lambda: jax.block_until_ready(product(a)), setting.few(10, 2))


def copy_rate(setting: Setting) -> float:
    """Bytes a second, read and written, in a copy in place: on CPUs one that caches hold, as they hold the weights."""
    import jax
    import jax.numpy as jnp

    x = jnp.ones(2**26 if setting.gpu else 2**18)
    copy = jax.jit(lambda x: x + 1.0, donate_argnums=0)

    def again() -> None:
        nonlocal x
        x = jax.block_until_ready(copy(x))

    return 2 * x.nbytes / median_of(again, setting.few(50, 2))


def launch_seconds(setting: Setting) -> float:
    """What a product too small to take any time takes inside a compiled loop: its launch."""
    import jax
    import jax.numpy as jnp

    count = 1000
    a = jnp.eye(8)
    loop = jax.jit(lambda x: jax.lax.scan(lambda x, _: (a @ x, None), x, length=count)[0])
    return median_of(lambda: jax.block_until_ready(loop(a)), setting.few(10, 2)) / count
