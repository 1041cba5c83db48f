"""Metrics of the server, in the text format of Prometheus."""

from collections import Counter

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)  # seconds: the histogram's buckets, from a cached answer to a slow one


class Metrics:
    """Counts requests by method, route and status, and how long they took. Routes are templates, so there are few."""

    def __init__(self):
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._within: Counter[float] = Counter()
        self._seconds = 0.0

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts one request."""
        self._requests[method, route, status] += 1
        self._seconds += seconds
        for bound in BOUNDS:
            self._within[bound] += seconds <= bound

    def text(self, series: int, observations: int, listeners: int) -> str:
        """All metrics as text, with the given numbers of open series, their observations, and open event streams."""
        lines = ["# TYPE odeprocess_requests_total counter"]
        for (method, route, status), count in sorted(self._requests.items()):
            lines.append(f'odeprocess_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}')
        total = sum(self._requests.values())
        lines.append("# TYPE odeprocess_request_seconds histogram")
        lines += [f'odeprocess_request_seconds_bucket{{le="{bound:g}"}} {self._within[bound]}' for bound in BOUNDS]
        lines += [f'odeprocess_request_seconds_bucket{{le="+Inf"}} {total}']
        lines += [f"odeprocess_request_seconds_sum {self._seconds:.6f}", f"odeprocess_request_seconds_count {total}"]
        for name, value in (("series", series), ("observations", observations), ("listeners", listeners)):
            lines += [f"# TYPE odeprocess_{name} gauge", f"odeprocess_{name} {value}"]
        return "\n".join(lines) + "\n"
