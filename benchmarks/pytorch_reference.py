"""The peer we measure against: the paper's NP and NDP in PyTorch and torchdiffeq, written as the paper describes them.

As its released code does: context and target are encoded each for itself, all times of a batch are sorted into one union, the
state that is integrated is [l ‖ d] though d never moves, and `odeint` (Dormand–Prince) keeps its default tolerances of 1e-7 and
1e-9. `tuned` is what a careful user makes of it: tolerances of 1e-3, and d beside the state, not in it. Gradients go through the
solver, not by the adjoint, which would be slower here. `copy_weights` takes over a process of ours, so that a test of both on the
same numbers can show that they are the same function.
"""

import itertools
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torchdiffeq import odeint  # pyright: ignore[reportMissingImports]

LATENT_FLOOR, NOISE_FLOOR = 0.1, 0.1
LATENT_START = -2.0  # what the sigmoid of the latents' σ begins at, as in ours


def mlp(sizes: list[int], activation: type[nn.Module]) -> nn.Sequential:
    """A multilayer perceptron, linear at the end."""
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), activation()]
    return nn.Sequential(*layers[:-1])


class Reference(nn.Module):
    """The paper's NP (without a flow) or NDP, for series of one channel.

    Arguments:
        name: `"np"` or `"ndp"`.
        sizes: r, z, l and h of the networks.
        t0: where the flow begins.
        noise_start: where the σ of observations begins, before its softplus.
        tuned: see the module.
    """

    def __init__(self, name: str, sizes: tuple[int, int, int, int], t0: float, noise_start: float, *, tuned: bool = False):
        super().__init__()
        r, z, l, h = sizes
        self.l_dim, self.t0, self.noise_start, self.tuned = l, t0, noise_start, tuned
        self.tolerances = {"rtol": 1e-3, "atol": 1e-3} if tuned else {}
        self.encoder = mlp([2, h, h, r], nn.ReLU)
        self.hidden, self.heads = nn.Linear(r, h), nn.Linear(h, 2 * z)
        self.dynamic = name == "ndp"
        if self.dynamic:
            self.field = mlp([z + 1, h, h, l], nn.Tanh)
            self.decoder, self.readout = mlp([z + 1, h, h, h], nn.ReLU), nn.Linear(l + h, 2)
        else:
            self.decoder = mlp([z + 1, h, h, 2], nn.ReLU)

    def belief(self, t: torch.Tensor, y: torch.Tensor) -> torch.distributions.Normal:
        """q(l(t0), d) given points `[batch, n]`."""
        r = self.encoder(torch.stack([t, y], -1)).mean(1)
        loc, raw = self.heads(torch.relu(self.hidden(r))).chunk(2, -1)
        return torch.distributions.Normal(loc, LATENT_FLOOR + (1 - LATENT_FLOOR) * torch.sigmoid(raw + LATENT_START))

    def states(self, z: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """The states at every time of every series, `[batch, n, l]`, over the union of all times."""
        times, place = torch.unique(t, return_inverse=True)
        times = torch.cat([torch.full_like(times[:1], self.t0), times])
        l0, d = z[:, : self.l_dim], z[:, self.l_dim :]

        def velocity(s: torch.Tensor, l: torch.Tensor) -> torch.Tensor:
            return self.field(torch.cat([l, d, s.expand(len(l), 1)], -1))

        def whole(s: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
            slope = self.field(torch.cat([state, s.expand(len(state), 1)], -1))
            return torch.cat([slope, torch.zeros_like(state[:, self.l_dim :])], -1)

        path: Any = odeint(velocity, l0, times, **self.tolerances) if self.tuned else odeint(whole, z, times)
        path = path[1:, :, : self.l_dim].transpose(0, 1)
        return torch.gather(path, 1, place[..., None].expand(-1, -1, self.l_dim))

    def forward(self, t: torch.Tensor, y: torch.Tensor, context: int, noise: torch.Tensor) -> torch.Tensor:
        """The negative ELBO a series; the first `context` of the points are the context, all of them the target."""
        given, asked = self.belief(t[:, :context], y[:, :context]), self.belief(t, y)
        z = asked.loc + asked.scale * noise
        if self.dynamic:
            l = self.states(z, t)
            d = z[:, None, self.l_dim :].expand(-1, t.shape[1], -1)
            raw = self.readout(torch.cat([l, self.decoder(torch.cat([l, d, t[..., None]], -1))], -1))
        else:
            raw = self.decoder(torch.cat([z[:, None].expand(-1, t.shape[1], -1), t[..., None]], -1))
        scale = NOISE_FLOOR + (1 - NOISE_FLOOR) * nn.functional.softplus(raw[..., 1] + self.noise_start)
        explained = torch.distributions.Normal(raw[..., 0], scale).log_prob(y).sum(1)
        return -(explained - torch.distributions.kl_divergence(asked, given).sum(1)).mean()


def copy_weights(model: Reference, process: Any) -> None:
    """Gives the reference the weights of a process of ours."""

    def put(layer: Any, ours: Any) -> None:
        with torch.no_grad():
            layer.weight.copy_(torch.tensor(np.asarray(ours.weight)))
            layer.bias.copy_(torch.tensor(np.asarray(ours.bias)))

    pairs = [(model.encoder, process.inference.encoder.net), (model.decoder, process.decoder.net.net)]
    if model.dynamic:
        pairs.append((model.field, process.flow.field.net.net))
        put(model.readout, process.decoder.readout)
    for theirs, ours in pairs:
        for layer, source in zip([x for x in theirs if isinstance(x, nn.Linear)], ours.layers, strict=True):
            put(layer, source)
    for layer, source in zip((model.hidden, model.heads), process.inference.head.net.layers, strict=True):
        put(layer, source)


def batches(t: np.ndarray, y: np.ndarray, batch: int, steps: int, device: str) -> list[tuple[Any, ...]]:
    """Tasks as the paper draws them: sizes shared by a batch, points of its own for each series, the first always among them."""
    rng, found = np.random.default_rng(0), []
    for _ in range(steps):
        rows = rng.choice(len(t), batch, replace=False)
        context, extra = int(rng.integers(1, 11)), int(rng.integers(0, 6))
        rest = [1 + rng.permutation(t.shape[1] - 1)[: context + extra - 1] for _ in rows]
        points = np.stack([np.concatenate([[0], r]) for r in rest])
        data = (torch.tensor(np.take_along_axis(x[rows], points, 1), device=device) for x in (t, y))
        found.append((*data, context))
    return found


class Trainer:
    """Training steps of the reference, one call each, by the paper's RMSprop."""

    def __init__(self, model: Reference, tasks: list[tuple[Any, ...]], z_dim: int, device: str):
        self.model, self.tasks, self.z_dim, self.device = model.to(device), tasks, z_dim, device
        self.optimiser, self.done = torch.optim.RMSprop(model.parameters(), lr=1e-3), 0

    def step(self) -> None:
        """One gradient step; waits for its end."""
        t, y, context = self.tasks[self.done % len(self.tasks)]
        self.done += 1
        self.optimiser.zero_grad()
        loss = self.model(t, y, context, torch.randn(len(t), self.z_dim, device=self.device))
        loss.backward()
        self.optimiser.step()
        loss.item()


def first_weights(spec: Any) -> Any:
    """A process of ours before training."""
    import jax.random as jr

    return spec.build(key=jr.key(0))


def check_same(model: Reference, process: Any, task: tuple[Any, ...]) -> None:
    """Raises unless the reference and a process of ours with the same weights give the same loss: they are the same function."""
    import jax
    import jax.numpy as jnp

    import odeprocess as odp

    t, y, context = task
    noise = np.random.default_rng(0).standard_normal((len(t), process.z_dim)).astype(np.float32)
    theirs = model.cpu()(t.cpu(), y.cpu(), context, torch.tensor(noise)).item()
    everything = jnp.ones((*t.shape, 1), bool)
    points = odp.Series(jnp.asarray(t.cpu().numpy()), jnp.asarray(y.cpu().numpy())[..., None], everything, jnp.zeros((len(t), 0)))
    tasks = odp.Task(points, everything & (jnp.arange(t.shape[1]) < context)[None, :, None], everything)
    with jax.default_matmul_precision("highest"):
        ours = -jax.vmap(lambda task, eps: odp.elbo(process, task, eps[None]))(tasks, jnp.asarray(noise)).mean()
    if not np.isclose(theirs, ours, rtol=1e-2):
        raise AssertionError(f"With the same weights the reference has a loss of {theirs}, ours of {ours}.")
