"""Tables of results: as data frames of the user's library, and as CSV and Parquet files."""

from pathlib import Path
from typing import Any

from odeprocess.common.storage import replacing

from . import arrow as pa
from .csv_files import choose_separator, is_compressed
from .read_table import check_suffix, is_parquet


def to_data_frame(arrow: Any, backend: Any) -> Any:
    """Returns an Arrow table as a data frame of the library that narwhals calls `backend`."""
    import narwhals as nw

    return nw.from_arrow(arrow, backend=backend).to_native()


def write(path: Path, frame: Any) -> None:
    """Writes a data frame to a CSV or Parquet file, by its suffix; the file is there whole or not at all."""
    import narwhals as nw

    check_suffix(path)
    arrow = nw.from_native(frame, eager_only=True).to_arrow()
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        if is_parquet(path):
            pa.parquet.write_table(arrow, temporary, write_page_checksum=True)
            return
        options = pa.csv.WriteOptions(delimiter=choose_separator(path, ","), quoting_style="needed")
        compressed = is_compressed(path)
        with pa.CompressedOutputStream(str(temporary), "gzip") if compressed else open(temporary, "wb") as file:
            pa.csv.write_csv(arrow, file, options)
