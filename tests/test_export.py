"""What `export` writes, read by the programs that people will read it with:
DuckDB, pandas and, where it is installed, promtool.

    python3 tests/test_export.py    (with duckdb, pandas and pyarrow; `./check`
                                     makes a virtual environment that has them)

The program is target/release/diskwright, or what DISKWRIGHT names.
"""

import csv
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import duckdb
import pandas

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("DISKWRIGHT", str(ROOT / "target/release/diskwright"))


def run(*arguments):
    """Standard output of the program."""
    return subprocess.run([PROGRAM, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


class Export(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="diskwright-export-"))
        cls.log = cls.folder / "log"
        run("record", cls.log, "--every", "100ms", "--for", "2s")
        cls.answers = {}
        for name, more in {
            "tidy.parquet": ["--as", "parquet"],
            "wide.parquet": ["--as", "parquet", "--wide"],
            "wide.csv": ["--as", "csv"],
            "long.csv": ["--as", "csv", "--long"],
            "lines.jsonl": ["--as", "jsonl"],
            "open.txt": ["--as", "prometheus"],
        }.items():
            answer = run("export", cls.log, *more, "-o", cls.folder / name, "--json")
            cls.answers[name] = json.loads(answer)
        with open(cls.folder / "long.csv", newline="") as file:
            cls.rows = list(csv.DictReader(file))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def value(self, row):
        return float(row["value"]) if row["value"] else None

    def test_duckdb_reads_the_tidy_form(self):
        path = self.folder / "tidy.parquet"
        types = {name: kind for name, kind, *_ in duckdb.sql(f"describe select * from '{path}'").fetchall()}
        self.assertEqual(types["time"], "TIMESTAMP WITH TIME ZONE")
        self.assertEqual([types[name] for name in ("counter", "instance", "unit")], ["VARCHAR"] * 3)
        self.assertEqual(types["value"], "DOUBLE")
        query = f"select epoch_us(time), counter, instance, unit, value from '{path}' order by all"
        found = [row[1:] for row in duckdb.sql(query).fetchall()]
        expected = [(row["counter"], row["instance"], row["unit"], self.value(row)) for row in self.rows]
        self.assertEqual(sorted(found, key=str), sorted(expected, key=str))
        rows, gaps = duckdb.sql(f"select count(*), count(*) filter (value is null) from '{path}'").fetchall()[0]
        answer = self.answers["tidy.parquet"]
        self.assertEqual((rows, gaps, rows - gaps), (answer["rows"], answer["gaps"], answer["values"]))
        self.assertGreater(gaps, 0, "the rates of the first tick are gaps")

    def test_pandas_reads_both_forms_alike(self):
        tidy = pandas.read_parquet(self.folder / "tidy.parquet")
        wide = pandas.read_parquet(self.folder / "wide.parquet")
        self.assertEqual(str(tidy.time.dtype), "datetime64[us, UTC]")
        self.assertEqual(str(wide.time.dtype), "datetime64[us, UTC]")
        busy = tidy[(tidy.counter == "processor.busy") & (tidy.instance == "_total")].value
        column = wide["processor.busy{_total}"]
        self.assertEqual(len(busy), len(column))
        for one, other in zip(busy, column):
            self.assertTrue(one == other or math.isnan(one) and math.isnan(other))
        self.assertEqual(len(wide.columns), self.answers["wide.parquet"]["series"] + 1)

    def test_the_text_forms_agree_with_parquet(self):
        wide = pandas.read_parquet(self.folder / "wide.parquet")
        table = pandas.read_csv(self.folder / "wide.csv", parse_dates=["time"])
        with open(self.folder / "lines.jsonl") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual(list(table.columns), list(wide.columns))
        self.assertEqual(list(lines[0]), list(wide.columns))
        self.assertEqual(list(table.time), list(wide.time))
        for name in wide.columns[1:]:
            for at, value in enumerate(wide[name]):
                self.assertTrue(value == table[name][at] or math.isnan(value) and math.isnan(table[name][at]), name)
                self.assertEqual(lines[at][name], None if math.isnan(value) else value, name)

    def test_duckdb_reads_the_text_forms(self):
        for source, name in (("read_json", "lines.jsonl"), ("read_csv", "wide.csv")):
            table = f"{source}('{self.folder / name}')"
            columns = duckdb.sql(f"describe select * from {table}").fetchall()
            self.assertEqual(len(columns), self.answers[name]["series"] + 1)
            query = f'select count(*), sum("processor.busy{{_total}}") from {table}'
            rows, total = duckdb.sql(query).fetchall()[0]
            self.assertEqual(rows, self.answers[name]["rows"])
            busy = [self.value(row) for row in self.rows
                    if (row["counter"], row["instance"]) == ("processor.busy", "_total")]
            self.assertAlmostEqual(total, sum(value for value in busy if value is not None))

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed (package prometheus)")
    def test_promtool_makes_blocks_of_it(self):
        text, blocks = self.folder / "open.txt", self.folder / "blocks"
        made = subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", text, blocks],
                              capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        # a database of blocks alone is not one that it dumps
        (blocks / "wal").mkdir()
        dumped = subprocess.run(["promtool", "tsdb", "dump", blocks], check=True, capture_output=True, text=True).stdout
        samples = [line for line in text.read_text().splitlines() if not line.startswith("#")]
        self.assertEqual(len(dumped.splitlines()), len(samples))
        self.assertEqual(len(samples), self.answers["open.txt"]["rows"])
        self.assertIn('__name__="diskwright_processor_busy_ratio"', dumped)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
