"""Damaged logs, with an oracle that counts every tick: written is what is read and what is told to be lost."""

import collections
import os
import random
import shutil
import signal
import time

from hostile.logs import ONE, Read, documents_of, reported_losses
from hostile.recorder import record
from hostile.trial import Broken, Case, fields_of

SEED = 14


# --- ways to damage a log; each takes its folder and a generator, and says what it did ------------------

def file_names_of(log, segments_only=False):
    return sorted(name for name in os.listdir(log)
                  if name.endswith(".dwlog") and name != "marks.dwlog" or name == "tail" and not segments_only)


def some_file(log, chance):
    path = os.path.join(log, chance.choice(file_names_of(log)))
    return path, os.path.getsize(path)


def cut(log, chance):
    """Anywhere, as often as not so early that nothing in it has a time."""
    path, size = some_file(log, chance)
    left = chance.choice([0, chance.randrange(1, 60), chance.randrange(size or 1), chance.randrange(size or 1)])
    os.truncate(path, min(left, size))
    return f"{os.path.basename(path)} cut to {left} bytes"


def cut_hard(log, chance):
    """A whole segment in which no time can be read any more, in the middle of the log or at its end."""
    path = os.path.join(log, chance.choice(file_names_of(log, segments_only=True)))
    left = chance.randrange(60)
    os.truncate(path, left)
    return f"{os.path.basename(path)} cut to {left} bytes"


def change_bytes(path, size, chance, max_bytes, make):
    at = chance.randrange(size or 1)
    length = min(chance.randrange(1, max_bytes + 1), size - at)
    with open(path, "r+b") as file:
        file.seek(at)
        old = file.read(length)
        file.seek(at)
        file.write(make(old))
    return f"{length} bytes at {at} of {os.path.basename(path)}"


def flip(log, chance):
    path, size = some_file(log, chance)
    def flipped(old):
        return bytes(byte ^ chance.randrange(1, 256) for byte in old)
    return "flipped: " + change_bytes(path, size, chance, 8, flipped)


def zero(log, chance):
    """What a power cut leaves of blocks that were never written."""
    path, size = some_file(log, chance)
    return "zeroed: " + change_bytes(path, size, chance, 4096, lambda old: bytes(len(old)))


def insert(log, chance):
    path, size = some_file(log, chance)
    at = chance.randrange(size + 1)
    with open(path, "rb") as file:
        old = file.read()
    with open(path, "wb") as file:
        file.write(old[:at] + chance.randbytes(chance.randrange(1, 600)) + old[at:])
    return f"inserted at {at} of {os.path.basename(path)}"


def remove_segment(log, chance):
    """Not the last one, of which nothing else may know."""
    segments = file_names_of(log, segments_only=True)
    name = chance.choice(segments[:-1] or segments)
    os.unlink(os.path.join(log, name))
    return f"{name} removed"


def repeat_segment(log, chance):
    """A copy under a later number, as a careless restore makes it."""
    segments = file_names_of(log, segments_only=True)
    source = chance.choice(segments)
    target = f"{int(segments[-1].split('.')[0]) + 1:08}.dwlog"
    shutil.copy(os.path.join(log, source), os.path.join(log, target))
    return f"{source} copied to {target}"


def swap_segments(log, chance):
    segments = file_names_of(log, segments_only=True)
    one, two = (os.path.join(log, name) for name in chance.sample(segments, 2))
    os.rename(one, one + ".moved")
    os.rename(two, one)
    os.rename(one + ".moved", two)
    return f"{os.path.basename(one)} and {os.path.basename(two)} exchanged"


WAYS = [cut, cut, cut_hard, flip, flip, zero, insert, remove_segment, repeat_segment, swap_segments]


# --- the logs that are damaged ---------------------------------------------------------------------------

def make_logs(bench):
    """A log of several segments, one a life of the recorder, that was closed; and the same
    with a tail, because its last recorder was killed. With each the times of its ticks."""
    log, killed = bench.path("log"), bench.path("killed")
    for life in range(4 if bench.tiny else 8):
        bench.run("record", log, "--every", "10ms", "--for", "400ms" if bench.tiny or life else "4s")
    bench.run("mark", log, "the", "only", "bookmark")
    shutil.copytree(log, killed)
    process = record(bench, killed)
    time.sleep(0.5)
    bench.end(process, signal.SIGKILL)
    undamaged = [(place, Read(bench, place)) for place in (log, killed)]
    for place, read in undamaged:
        if len(file_names_of(place, True)) < 3 or read.lost or not read.times:
            raise ValueError(f"{file_names_of(place)}, {len(read.times)} ticks, {read.lost} lost before any damage")
    return [(place, read.times) for place, read in undamaged]


def damaged_copy(bench, source, chance, ways):
    damaged = bench.path("damaged")
    shutil.rmtree(damaged, ignore_errors=True)
    shutil.copytree(source, damaged)
    return damaged, "; ".join(chance.choice(ways)(damaged, chance) for _ in range(chance.choice([1, 1, 1, 2])))


def count(bench, rounds, tiny_rounds, ways):
    """So many damaged logs, each read whole: the sum is right, or something is told where no number can be known."""
    chance, logs = random.Random(SEED), make_logs(bench)
    outcomes, silent = collections.Counter(), []
    rounds = tiny_rounds if bench.tiny else rounds
    for number in range(rounds):
        source, written = logs[number % len(logs)]
        damaged, damage = damaged_copy(bench, source, chance, ways)
        try:
            outcomes[Read(bench, damaged).judged(written)] += 1
        except Broken as found:
            silent.append(f"{damage}: {found}")
    if silent:
        raise Broken(f"{len(silent)} of {rounds} not right, such as: " + "; ".join(silent[:3]))
    return f"{rounds} damaged logs: " + ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())


READERS = [
    ("export -o", lambda bench, log: bench.run("export", log, "--as", "csv", "-o", bench.path("out"), "--json", *ONE)),
    ("show", lambda bench, log: bench.run("show", log, "--json", *ONE)),
    ("why", lambda bench, log: bench.run("why", log, "--json")),
    ("report", lambda bench, log: bench.run("report", log, "-o", bench.path("page.html"), "--json")),
    ("compare", lambda bench, log: bench.run("compare", log, log, "--json")),
]


def every_reader(bench):
    """The same damaged log by each reader: it is told in `damage[]`, and on the screen."""
    (log, written), _ = make_logs(bench)
    damaged = bench.path("damaged")
    shutil.copytree(log, damaged)
    os.truncate(os.path.join(damaged, file_names_of(damaged, True)[0]), 20)
    lost = len(written) - len(Read(bench, damaged).times)
    broken = []
    for name, read in READERS:
        done = read(bench, damaged)
        document = documents_of(done)
        known, _ = reported_losses(document if "damage" in document else {"damage": []}, "")
        if "damage" not in document:
            broken.append(f"{name} --json has no damage[]")
        # compare reads it twice, once for each side
        elif known not in (lost, 2 * lost):
            broken.append(f"{name} tells {known} of {lost}")
    for name, words in (("show", ["show", damaged]), ("why", ["why", damaged])):
        done = bench.run(*words)
        if not any(str(lost) in line for line in (done.out + done.err).decode("utf-8", "replace").splitlines()
                   if "lost" in line or "gone" in line or "missing" in line or "lack" in line):
            broken.append(f"{name} says nothing of {lost} lost ticks")
    if broken:
        raise Broken("; ".join(broken))
    return f"{lost} lost ticks told by each, in words and as JSON"


def bookmarks(bench):
    """Damage to the bookmarks' own file is damage too."""
    (log, _), _ = make_logs(bench)
    damaged = bench.path("damaged")
    broken = []
    for damage, left in (("cut to nothing", 0), ("cut inside its head", 20), ("its end cut off", -3)):
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(log, damaged)
        path = os.path.join(damaged, "marks.dwlog")
        os.truncate(path, left if left >= 0 else os.path.getsize(path) + left)
        done = bench.run("show", damaged, "--json", *ONE)
        document = fields_of(done)
        is_reported = document.get("damage") or b"marks" in done.err
        if len(document["bookmarks"]) < 1 and not is_reported:
            broken.append(damage)
    if broken:
        raise Broken(f"the bookmark is gone in silence: {', '.join(broken)}")
    return "a lost bookmark is told"


EXACT = "written = read + told, to the tick; where no number can be known, at least told"
CASES = [
    Case("damage/segments cut", "segments cut so that no time can be read in them", EXACT, count, (100, 12, [cut_hard]),
         tiny=True),
    Case("damage/all ways", "logs cut, flipped, zeroed, with bytes inserted, segments missing, repeated, exchanged",
         EXACT, count, (700, 30, WAYS), tiny=True),
    Case("damage/every reader", "export, show, why, report and compare of the same damaged log",
         "each tells it in damage[], show and why in words", every_reader),
    Case("damage/bookmarks", "marks.dwlog cut", "a lost bookmark is told", bookmarks),
]
