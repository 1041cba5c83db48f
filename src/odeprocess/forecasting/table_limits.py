"""Limits on tables: columns, names, rows, file sizes, categories and magnitudes.

They are far beyond any sensible table. A file that is damaged, malicious or no table at all gets a one-line error from them
before it exhausts the memory. Chosen by hand where no source is named.
"""

MAX_COLUMNS = 16_384  # of an Excel sheet; each column costs time whether it has a role or not
MAX_NAME_LENGTH = 1_000  # characters of the name of a column, a series or a category
MAX_CATEGORIES = 100  # of a static column; each becomes an input of the networks

MAX_ROW_BYTES = 16 * 2**20  # of a row in a CSV file
# A .csv.gz file may unpack to this many times its size, and any may unpack to the number of bytes beside it.
CSV_RATIO, CSV_BYTES = 100, 256 * 2**20
# Rows, and unpacked bytes, for each byte of a Parquet file, and what any may have. Times differ between rows, so compress worse.
PARQUET_ROW_RATIO, PARQUET_ROWS = 100, 1_000_000
PARQUET_RATIO, PARQUET_BYTES = 100, 256 * 2**20

MAX_MAGNITUDE, MIN_RANGE = 1e100, 1e-100  # of values and times: their squares, sums and ratios stay within float64
MAX_DIGITS = 38  # of an exact time; as many as a 128-bit decimal column has
MAX_PADDED_POINTS = 4_000_000  # of all training series together, padding included
