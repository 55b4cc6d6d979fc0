"""What a user would read a Performance Monitor CSV with, each pinned to one
thread: prints a line a reader, name and seconds of processor time (best of
some, user and system).

    python3 peers.py FILE [TIMES]

The columns are asked for as numbers wherever the reader lets us; a blank is a
missing value. Each is run as it is best used for a whole file.
"""

import os
import sys

os.environ.update(
    POLARS_MAX_THREADS="1", OMP_NUM_THREADS="1", ARROW_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1"
)


def seconds(read, times):
    best = float("inf")
    for _ in range(times):
        start = os.times()
        rows = read()
        end = os.times()
        best = min(best, end.user - start.user + end.system - start.system)
    return best, rows


def names(path):
    with open(path, encoding="utf-8") as file:
        return len(file.readline().split('","'))


def by_pandas(path):
    import pandas

    # the C engine, as it is, and with numbers rounded in the quick way that is its default
    return lambda: len(pandas.read_csv(path, na_values=" ", engine="c", low_memory=False))


def by_pyarrow(path):
    import pyarrow
    from pyarrow import csv

    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
    options = csv.ConvertOptions(null_values=["", " "], strings_can_be_null=True, quoted_strings_can_be_null=True)
    reading = csv.ReadOptions(use_threads=False)
    return lambda: csv.read_csv(path, read_options=reading, convert_options=options).num_rows


def by_polars(path):
    import polars

    columns = names(path)
    types = [polars.String] + [polars.Float64] * (columns - 1)
    heads = [f"c{i}" for i in range(columns)]
    return lambda: polars.read_csv(
        path, has_header=False, skip_rows=1, new_columns=heads, schema_overrides=types, null_values=[" "]
    ).height


def by_duckdb(path):
    import duckdb

    columns = names(path)
    link = duckdb.connect(config={"threads": 1})
    types = ", ".join(f"'c{i}': '{'VARCHAR' if i == 0 else 'DOUBLE'}'" for i in range(columns))
    query = (
        f"CREATE OR REPLACE TEMP TABLE log AS SELECT * FROM read_csv('{path}', header = true, columns = {{{types}}}, "
        "nullstr = ' ', allow_quoted_nulls = true, auto_detect = false, quote = '\"', delim = ',', "
        "max_line_size = 10000000, new_line = '\\r\\n')"
    )

    def read():
        link.execute(query)
        return link.execute("SELECT count(*) FROM log").fetchone()[0]

    return read


def main():
    path, times = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    for name, make in [("DuckDB", by_duckdb), ("pandas", by_pandas), ("polars", by_polars), ("pyarrow", by_pyarrow)]:
        try:
            best, rows = seconds(make(path), min(times, 3))
        except Exception as error:  # a reader that cannot read the file is told, and the others go on
            print(f"{name}: {str(error)[:300]}", file=sys.stderr)
            continue
        version = sys.modules[name.lower()].__version__
        print(f"{name} {version} ({rows} rows) {best:.3f}", flush=True)


main()
