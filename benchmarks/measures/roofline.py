"""The roofline of a training step: the least time for its arithmetic and memory traffic, at this machine's measured rates."""

from .timing import Setting, make_sines, pin_to_cores, time_median

POINTS = 15  # the largest number of points of a task on sines


def measure_roofline(setting: Setting) -> list[dict]:
    """The roofline of the NP and the NDP, at the paper's batch size and at large ones; on CPUs on one core."""
    import odeprocess as odp

    if not setting.gpu:
        pin_to_cores(1)
    rate, bandwidth, launch = measure_matmul_rate(setting), measure_copy_rate(setting), measure_launch_seconds(setting)
    machine = {"benchmark": "machine", "flops_a_second": rate, "bytes_a_second": bandwidth, "launch_seconds": launch}
    rows: list[dict] = [machine]
    protocol, series = make_sines(setting)
    for name in ("np", "ndp"):
        spec = protocol.spec(name).resolve(series)
        for batch in (5, 1024, 4096):
            flops, moved = 3 * batch * count_forward_flops(spec, odp.process.solvers.TABLEAUS), 6 * 4 * count_parameters(spec)
            row = {"benchmark": "roofline", "task": "sines", "model": name, "batch": batch, "flops": flops, "bytes": moved}
            rows.append({**row, "seconds": flops / rate + moved / bandwidth})
    return rows


def count_forward_flops(spec, tableaus) -> int:
    """Multiplications and additions of the forward pass of one series in a step; the backward pass has twice as many."""
    r, z, l, h = spec.r_dim, spec.z_dim, spec.l_dim, spec.h_dim
    encoder = POINTS * (2 * h + h * h + h * r)
    heads = 2 * (r * h + h * 2 * z)
    if spec.dynamics == "none":
        return 2 * (encoder + heads + z * h + POINTS * (h + h * h + 2 * h))
    stages = len(tableaus[spec.solver.order].nodes) * spec.solver.steps + 1
    flow = (z - l) * h + stages * (l * h + h * h + h * l)
    decoder = (z - l) * h + POINTS * (l * h + 2 * h * h + 2 * (l + h))
    return 2 * (encoder + heads + flow + decoder)


def count_parameters(spec) -> int:
    """Number of weights and biases of a process."""
    import jax
    import jax.random as jr

    return sum(x.size for x in jax.tree.leaves(spec.build(key=jr.key(0))))


def measure_matmul_rate(setting: Setting) -> float:
    """Operations a second in a large matrix product of full float32 precision."""
    import jax
    import jax.numpy as jnp

    n = 256 if setting.quick else 8192 if setting.gpu else 2048
    a = jnp.ones((n, n))
    product = jax.jit(lambda a: jnp.dot(a, a, precision="highest"))
    return 2 * n**3 / time_median(lambda: jax.block_until_ready(product(a)), setting.choose_count(10, 2))


def measure_copy_rate(setting: Setting) -> float:
    """Bytes a second, read and written, of an update in place: on CPUs of an array that fits into caches, as the weights do."""
    import jax
    import jax.numpy as jnp

    x = jnp.ones(2**26 if setting.gpu else 2**18)
    copy = jax.jit(lambda x: x + 1.0, donate_argnums=0)

    def again() -> None:
        nonlocal x
        x = jax.block_until_ready(copy(x))

    return 2 * x.nbytes / time_median(again, setting.choose_count(50, 2))


def measure_launch_seconds(setting: Setting) -> float:
    """Seconds of a tiny product inside a compiled loop: the overhead of launching an operation."""
    import jax
    import jax.numpy as jnp

    count = 1000
    a = jnp.eye(8)
    loop = jax.jit(lambda x: jax.lax.scan(lambda x, _: (a @ x, None), x, length=count)[0])
    return time_median(lambda: jax.block_until_ready(loop(a)), setting.choose_count(10, 2)) / count
