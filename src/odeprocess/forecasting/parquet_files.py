"""Parquet files as Arrow tables; what a file says of its own size is checked before its rows are read."""

import os
from pathlib import Path
from typing import Any

from odeprocess.common import checks

from . import arrow as pa
from .csv_files import check_column_names
from .message_text import name_file
from .table_limits import PARQUET_BYTES, PARQUET_RATIO, PARQUET_ROW_RATIO, PARQUET_ROWS


def read_parquet(path: Path) -> Any:
    """Returns the file as an Arrow table.

    Raises:
        ValueError: where it is damaged, no Parquet file, or says that it is too large for its size.
    """
    where, faults = name_file(path), (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError, MemoryError)
    # Not a file of Python's: Arrow's threads read ahead, and would be cut short where a program ends after an error.
    with pa.OSFile(os.fsencode(path)) as file:
        start = file.read(4)
        checks.require(start != b"PARE", f"{where} is encrypted; expected a Parquet file that is not.")
        checks.require(start == b"PAR1", f"{where} is not a Parquet file, or is damaged. Write it again.")
        size = file.size()
        file.seek(0)
        try:
            source = pa.parquet.ParquetFile(file, page_checksum_verification=True)
            metadata, names = source.metadata, list(source.schema_arrow.names)
            groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
            rows, unpacked = metadata.num_rows, sum(max(group.total_byte_size, 0) for group in groups)
        except faults:
            raise ValueError(f"{where} is not a Parquet file, or is damaged. Write it again.") from None
        check_column_names(names, where)
        sensible = unpacked <= max(PARQUET_BYTES, PARQUET_RATIO * size)
        checks.require(
            sensible and 0 <= rows <= max(PARQUET_ROWS, PARQUET_ROW_RATIO * size),
            f"{where} says that it holds {rows:,} rows, {unpacked:,} bytes, in a file of {size:,} bytes: it is damaged, or there "
            "is little in it. Write it again.",
        )
        try:
            table = source.read()
        except faults:
            raise ValueError(f"{where} is damaged: its rows cannot be read. Write it again, or fetch a sound copy.") from None
    checks.require(
        table.num_rows == rows and table.column_names == names,
        f"{where} is damaged: it says that it holds {rows:,} rows, and holds {table.num_rows:,}. Write it again.",
    )
    return table
