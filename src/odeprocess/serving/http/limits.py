"""What one client may ask of the server."""

import dataclasses
from typing import ClassVar


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds on everything that costs memory or time. Those in capitals stand in the OpenAPI document.

    Attributes:
        body: bytes of a request.
        series: open at once.
        points: observations of one series.
        idle: seconds after which a series that nobody asks about is dropped.
        listeners: event streams at once.
        waiting: requests that wait for the model at once.
        patience: seconds in which the head of a request must arrive, and again its body; a large one gets some more.
        bodies: bytes of all bodies that are on their way or being answered.
        visitors: of the playground at once.
        connections: open at once.
        connections_by_client: open at once from one address.
    """

    body: int = 4 << 20
    series: int = 10_000
    points: int = 10_000
    idle: float = 24 * 3600.0
    listeners: int = 64
    waiting: int = 256
    patience: float = 10.0
    bodies: int = 32 << 20
    visitors: int = 20
    connections: int = 1000
    connections_by_client: int = 500

    POINTS: ClassVar[int] = 1000  # observations in one request
    TIMES: ClassVar[int] = 1000  # times in one question
    ABOUT: ClassVar[int] = 64  # times that a suggestion is about
    DRAWS: ClassVar[int] = 64  # trajectories in one answer
    SUGGESTIONS: ClassVar[int] = 16
    CHANNELS: ClassVar[int] = 1024  # values of one observation
    LISTED: ClassVar[int] = 1000  # series in one listing
    LARGEST: ClassVar[float] = 1e12  # number
    SPANS: ClassVar[float] = 1.0  # of the training times, that a question may lie before or after them

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"`{field.name}` is {getattr(self, field.name)!r}; expected a number above 0.")
