"""The models that a page offers, and word of those that are still being made."""

import threading
from collections.abc import Sequence
from pathlib import Path

from . import demo_models
from .model_view import ModelView, load_views
from .predictions import warm_up


class ModelMenu:
    """Exhibits by title; more may join while pages are open.

    Attributes:
        views: those that can be chosen.
        news: what is being made, in words; empty when all is there.
    """

    def __init__(self, views: dict[str, ModelView]):
        """With at least one model; the first is made ready for clicks, `prepare` sees to the others."""
        self.views = views
        self.news = ""
        warm_up(next(iter(self.views.values())))

    def prepare(self, names: Sequence[str] = (), root: Path = Path()) -> threading.Thread:
        """Compiles the rest in a thread and trains small models, one after the other; each joins when it is ready.

        Arguments:
            names: of the small models that are not there.
            root: the folder that holds them.
        """
        if names:
            self.news = f"{names[0]} is to come"
        thread = threading.Thread(target=self._work, args=(names, root), daemon=True)
        thread.start()
        return thread

    def _work(self, names: Sequence[str], root: Path) -> None:
        for view in list(self.views.values()):
            warm_up(view)
            warm_up(view, refine=True)
        for name in names:

            def advance(part: float, name: str = name) -> None:
                self.news = f"{name} is being trained: {part:.0%}"

            try:
                found = load_views([demo_models.train(name, root, advance)])
            except Exception as error:  # the page goes on without it, and says why
                self.news = f"{name} could not be trained: {error}"
                return
            for view in found.values():
                warm_up(view)
            self.views = {**self.views, **found}
        self.news = ""
