"""scikit-learn's conventions for estimators, without scikit-learn: options are stored as they are, read and set by name."""

import inspect
from abc import ABC, abstractmethod
from typing import Any

from odeprocess.common import checks


class AbstractEstimator(ABC):
    """Stores its options in attributes of the same names; the names of learned attributes end in `_`."""

    @abstractmethod
    def __sklearn_is_fitted__(self) -> bool:
        """Returns whether `fit` was called; scikit-learn looks for this name."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns the options by name; `deep` has no effect, and is there because scikit-learn passes it."""
        return {name: getattr(self, name) for name in inspect.signature(type(self).__init__).parameters if name != "self"}

    def set_params(self, **params: Any) -> Any:
        """Changes options by name, and returns the estimator."""
        known = self.get_params()
        unknown = sorted(set(params) - set(known))
        checks.require(not unknown, f"Unknown option(s) {unknown}; a {type(self).__name__} has: {', '.join(known)}.")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        parameters = inspect.signature(type(self).__init__).parameters
        changed = {k: v for k, v in self.get_params().items() if v != parameters[k].default}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in changed.items())})"

    def _check_fitted(self) -> None:
        checks.require(
            self.__sklearn_is_fitted__(),
            f"This {type(self).__name__} has not been fitted yet: call fit(table, …) first, or load one from a folder.",
        )
