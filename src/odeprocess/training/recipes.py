"""The recipe that we would use ourselves: chosen by the scoreboard in `docs/accuracy.md`."""

from typing import Any

from odeprocess.common import checks
from odeprocess.data.series import Series
from odeprocess.data.tasks import TaskSampler
from odeprocess.process import variant

from .options import FitOptions

BATCH = 49
SHORT, LONG = 12, 40  # most observations given in training, for short series and for long ones


def recipe(series: Series, *, steps: int = 2000, spec: str = "ndp-skip") -> dict[str, Any]:
    """How to train the most accurate model we know on series: `fit(series=series, **recipe(series))`.

    Arguments:
        series: the training series.
        steps: gradient steps of the first half; the second half has three times as many. The default takes about two minutes
            on two cores.
        spec: a variant with a learned prior: `"ndp-skip"`, or one of those that `learn` lets compete.

    Examples:
        >>> import jax, odeprocess as odp
        >>> series = odp.data.sines.sample(20, key=jax.random.key(0))
        >>> odp.recipe(series)["spec"].variant
        'ndp-skip'
    """
    checks.instance("series", series, Series, "a batch of series: make one with make_series(t, y)")
    return recipe_for(len(series), series.t.shape[1], series.channels, steps=steps, spec=spec)


def recipe_for(count: int, length: int, channels: int, *, steps: int, spec: str = "ndp-skip") -> dict[str, Any]:
    """The same for any series of these numbers."""
    checks.positive("steps", steps, integer=True)
    batch = min(count, BATCH)
    most = max(1, min(length // 2, SHORT if length * channels <= 128 else LONG))
    rest = max(1, min(length - most, 28))
    sampler = TaskSampler(context=(0, most), extra=(rest, rest), split="mixed", shared="nothing")
    epochs = max(1, round(steps * batch / count))
    options = FitOptions(epochs=epochs, em_epochs=3 * epochs, batch_size=batch, learning_rate=3e-3, schedule="cosine", clip=100.0)
    return {"spec": variant(spec), "sampler": sampler, "options": options}
