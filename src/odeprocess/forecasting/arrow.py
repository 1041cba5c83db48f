"""Arrow (`pyarrow`), imported when it is first used: a server of models works without it.

Used as `from . import arrow as pa`. Untyped, since type checkers do not see the functions that Arrow creates at import.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    import pyarrow
    import pyarrow.compute
    import pyarrow.csv
    import pyarrow.parquet

    return getattr(pyarrow, name)
