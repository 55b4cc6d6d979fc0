"""Commits to a SQLite database, one after the other, and notes how long each took.

    commits.py DATABASE --seconds N --to FILE

Each line of FILE is a commit: when it was done (seconds since 1970) and how
long it took (seconds). FILE lies in memory, so that noting costs no disk.
"""

import argparse
import signal
import sqlite3
import sys
import time

ROW = 200  # bytes of a record, as of a small order or a log line
STOPPED = []


def commits(path, seconds, file):
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    # every commit waits until it is safe, which is what an application expects of one
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE IF NOT EXISTS record (id INTEGER PRIMARY KEY, text BLOB)")
    end = time.monotonic() + seconds
    while not STOPPED and time.monotonic() < end:
        began = time.monotonic()
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO record (text) VALUES (randomblob(?))", (ROW,))
        database.execute("COMMIT")
        file.write(f"{time.time():.6f} {time.monotonic() - began:.6f}\n")
    # not closed: closing would copy the whole log into the database


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("database")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--to", required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: STOPPED.append(True))
    with open(options.to, "w", encoding="ascii", buffering=1) as file:
        try:
            commits(options.database, options.seconds, file)
        except sqlite3.Error as error:
            sys.exit(f"sqlite: {error}")


if __name__ == "__main__":
    main()
