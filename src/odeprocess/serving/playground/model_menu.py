"""The models that a page offers, and the progress of those that are being trained."""

import threading
from collections.abc import Sequence
from pathlib import Path

from . import demo_models
from .model_view import ModelView, load_views
from .predictions import warm_up


class ModelMenu:
    """Models by title; more can be added while pages are open.

    Attributes:
        views: the models that can be chosen.
        progress: a sentence about the model that is being trained; empty if none is.
    """

    def __init__(self, views: dict[str, ModelView]):
        """Makes a menu of one or more models, and compiles for the first; call `prepare` for the others."""
        self.views = views
        self.progress = ""
        warm_up(next(iter(self.views.values())))

    def prepare(self, names: Sequence[str] = (), root: Path = Path()) -> threading.Thread:
        """Starts a thread that compiles for the other models, and trains demo models and adds them, one after the other.

        Arguments:
            names: the demo models to train.
            root: the folder of the demo models.
        """
        if names:
            self.progress = f"{names[0]} is to come"
        thread = threading.Thread(target=self._work, args=(names, root), daemon=True)
        thread.start()
        return thread

    def _work(self, names: Sequence[str], root: Path) -> None:
        for view in list(self.views.values()):
            warm_up(view)
            warm_up(view, exact=True)
        for name in names:

            def report(part: float, name: str = name) -> None:
                self.progress = f"{name} is being trained: {part:.0%}"

            try:
                found = load_views([demo_models.train(name, root, report)])
            except Exception as error:  # pages work without the model, and show why it is missing
                self.progress = f"{name} could not be trained: {error}"
                return
            for view in found.values():
                warm_up(view)
            self.views = {**self.views, **found}
        self.progress = ""
