"""Parquet files as Arrow tables: what the file says of itself is held against its size before anything is read."""

import os
from pathlib import Path
from typing import Any

from odeprocess.common import checks

from .csv_files import check_names
from .message_text import place_of

# What a file may hold for each of its bytes, and what any file may. Times differ from row to row, so they are not packed better.
MOST_ROWS, LEAST_ROWS = 100, 1_000_000
MOST_BYTES, LEAST_BYTES = 100, 256 * 2**20


def read(path: Path) -> Any:
    """The file as an Arrow table.

    Raises:
        ValueError: where it is damaged, no Parquet file, or larger than its size allows.
    """
    import pyarrow as pa
    import pyarrow.parquet

    where = place_of(path)
    with pa.OSFile(os.fsencode(path)) as file:  # not Python's, see `csv_files`
        start = file.read(4)
        checks.require(start != b"PARE", f"{where} is encrypted; expected a Parquet file that is not.")
        checks.require(start == b"PAR1", f"{where} is not a Parquet file, or is damaged. Write it again.")
        size = file.size()
        file.seek(0)
        try:
            source = pyarrow.parquet.ParquetFile(file, page_checksum_verification=True)
            about, names = source.metadata, list(source.schema_arrow.names)
            groups = [about.row_group(i) for i in range(about.num_row_groups)]
            rows, unpacked = about.num_rows, sum(max(group.total_byte_size, 0) for group in groups)
        except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError, MemoryError):
            raise ValueError(f"{where} is not a Parquet file, or is damaged. Write it again.") from None
        check_names(names, where)
        fits = 0 <= rows <= max(LEAST_ROWS, MOST_ROWS * size) and unpacked <= max(LEAST_BYTES, MOST_BYTES * size)
        checks.require(
            fits,
            f"{where} says that it holds {rows:,} rows, {unpacked:,} bytes, in a file of {size:,} bytes: it is damaged, or there "
            "is little in it. Write it again.",
        )
        try:
            table = source.read()
        except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError, MemoryError):
            raise ValueError(f"{where} is damaged: its rows cannot be read. Write it again, or fetch a sound copy.") from None
    checks.require(
        table.num_rows == rows and table.column_names == names,
        f"{where} is damaged: it says that it holds {rows:,} rows, and holds {table.num_rows:,}. Write it again.",
    )
    return table
