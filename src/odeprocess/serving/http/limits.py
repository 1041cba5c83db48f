"""The limits on what clients may ask of the server, with their defaults."""

import dataclasses
from typing import ClassVar


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits on everything that costs memory or time. Those in capitals are part of the API: the OpenAPI document states them.

    The defaults are chosen by hand.

    Attributes:
        max_body_bytes: of one request.
        max_series: open at once.
        max_points: observations of one series.
        idle_seconds: after which an unused series is deleted.
        max_event_streams: open at once.
        max_queued_requests: that wait for the model at once.
        request_timeout: seconds in which the head of a request must arrive, and again its body; a large body gets more.
        max_total_body_bytes: of all requests that are being received or answered.
        max_pages: of the playground open at once.
        max_connections: open at once.
        max_connections_per_client: open at once from one address.
    """

    max_body_bytes: int = 4 << 20
    max_series: int = 10_000
    max_points: int = 10_000
    idle_seconds: float = 24 * 3600.0
    max_event_streams: int = 64
    max_queued_requests: int = 256
    request_timeout: float = 10.0
    max_total_body_bytes: int = 32 << 20
    max_pages: int = 20
    max_connections: int = 1000
    max_connections_per_client: int = 500

    MAX_OBSERVATIONS: ClassVar[int] = 1000  # in one request
    MAX_TIMES: ClassVar[int] = 1000  # in one prediction or suggestion
    MAX_ABOUT: ClassVar[int] = 64  # times whose values a suggestion is to reveal
    MAX_DRAWS: ClassVar[int] = 64  # trajectories in one prediction
    MAX_SUGGESTIONS: ClassVar[int] = 16  # times suggested at once
    MAX_CHANNELS: ClassVar[int] = 1024  # values of one observation
    MAX_LISTED: ClassVar[int] = 1000  # series in one page of the list
    MAX_NUMBER: ClassVar[float] = 1e12  # the absolute value of any number; float32 squares it without overflow
    MAX_EXTRAPOLATION: ClassVar[float] = 1.0  # how far before or after the training times predictions go, in their spans

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"`{field.name}` is {getattr(self, field.name)!r}; expected a number above 0.")
