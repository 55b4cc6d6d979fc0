"""Holds the first screen of an answer against the truth of an incident, part by part.

A part is right only if a person finds it on those 24 rows of 80 columns. What the document (`--json`) has beside them
counts for nothing; it only tells whether the screen or the diagnosis lacks it.
"""

import dataclasses
import datetime
import json
import re

from incidents import remedies
from incidents.terminal import ROWS

# "Within some seconds": a tick of a second, what a load takes to get going, and the step that must be seen.
SINCE_TOLERANCE_S = 6
BADGE = re.compile(r"^([A-Z][A-Z ]*[A-Z])(?:  (\S.*?))?\s+\S*\s+confidence\s+\d")
NAMES = {"processor": "cpu", "no bottleneck": "none", "not enough data": "unknown"}
# A machine on which others compile has its processors full, whatever else is wrong.
BLAMED_ON_OTHERS = "cpu"
TIME = re.compile(r"\b(\d\d):(\d\d):(\d\d)\b")
SINCE_WORDS = re.compile(r"\b(since|began|begins?|started|starts?|rose|fell|grew|stepped|when|killed)\b", re.I)
PARTS = ["fits", "resource", "culprit", "place", "since", "event", "remedy", "effect"]


@dataclasses.dataclass
class Culprit:
    """A process that must be named: words of its command line, of which the middle may be left out, and what returns
    its ids; without any, the words do."""

    words: list
    pids: callable = list


@dataclasses.dataclass
class Truth:
    """What is the matter, by those who made it."""

    # (bottleneck, instance): a part of the instance's name, or None; empty where no part of the machine is short
    resources: list
    culprits: list
    # words that tell where it runs: a container, a machine
    place: list = dataclasses.field(default_factory=list)
    # patterns that must be in the headline: a kill, a lock
    events: list = dataclasses.field(default_factory=list)
    # words of those who only suffer; they must not stand before a culprit
    victims: list = dataclasses.field(default_factory=list)
    # seconds since 1970
    since: float = 0.0


@dataclasses.dataclass
class Answer:
    """An answer on a terminal; the document of the same log where there is one."""

    rows: list
    document: dict | None = None
    # the share of the processors that others used meanwhile, and the disks that others made
    others_share: float = 0.0
    others_disks: tuple = ()

    @property
    def screen(self):
        return self.rows[:ROWS]


@dataclasses.dataclass
class Found:
    """Whether a part is there; None where nothing is asked. `because` says what is missing."""

    right: bool | None
    because: str = ""

    def word(self):
        return {True: "yes", False: "NO", None: "-"}[self.right]


def judge(truth, answer, since_wanted=True):
    """The parts of an answer that the screen alone can have."""
    return {
        "fits": judge_size(answer),
        "resource": judge_resources(truth, answer),
        "culprit": judge_culprits(truth, answer),
        "place": judge_place(truth, answer),
        "since": judge_since(truth, answer) if since_wanted else Found(None),
        "event": judge_events(truth, answer),
    }


def judge_size(answer):
    """What is longer than the terminal has its first rows, which matter most, above the top."""
    rows = len(answer.rows)
    return Found(rows <= ROWS, f"{rows} rows: the first are out of sight" if rows > ROWS else "")


def blamed(rows):
    """The bottlenecks that a screen names: (name, instance, row number)."""
    found = []
    for number, row in enumerate(rows):
        if badge := BADGE.match(row):
            name = badge[1].lower()
            found.append((NAMES.get(name, name), badge[2] or "", number))
    return found


def judge_resources(truth, answer):
    named = [one for one in blamed(answer.screen) if one[0] not in ("none", "unknown")]
    if not named and not blamed(answer.screen):
        return Found(False, "no bottleneck is named in the first rows, not even that there is none")
    missing = []
    for bottleneck, instance in truth.resources:
        fitting = [one for one in named if one[0] == bottleneck and (not instance or instance in one[1])]
        if fitting:
            named.remove(fitting[0])
        else:
            missing.append(f"{bottleneck} {instance or ''}".strip())
    others = answer.others_share > 0.3 and (BLAMED_ON_OTHERS, None) not in truth.resources
    extra = [f"{name} {instance}".strip() for name, instance, _ in named
             if not (others and name == BLAMED_ON_OTHERS or instance in answer.others_disks)]
    said = [f"not named: {', '.join(missing)}"] if missing else []
    said += [f"named without a cause: {', '.join(extra)}"] if extra else []
    return Found(not said, "; ".join(said))


def entries(rows):
    """Each row with the next one: a culprit takes up to two rows, and its command line one more."""
    return [" ".join(rows[number:number + 3]) for number in range(len(rows))]


def row_of(words, rows, pids=()):
    """The first row that begins an entry with all the words, and one of the ids where there are some; or None."""
    for number, entry in enumerate(entries(rows)):
        if rows[number] and all(word in entry for word in words):
            if not pids or any(re.search(rf"\b{pid}\b", entry) for pid in pids):
                return number
    return None


def judge_culprits(truth, answer):
    said, first = [], []
    for culprit in truth.culprits:
        pids = culprit.pids()
        row = row_of(culprit.words, answer.screen, pids)
        if row is not None:
            first.append(row)
            continue
        absent = [word for word in culprit.words if not any(word in line for line in answer.screen)]
        lacks = f"without {' '.join(absent)}" if absent else "its words are scattered"
        if not absent and pids:
            lacks = f"without its number ({', '.join(map(str, pids[:4]))})"
        elsewhere = tell_behind(answer, "culprits", culprit.words)
        said.append(f"not named with its command line: {' '.join(culprit.words)} ({lacks}{elsewhere})")
    for victim in truth.victims:
        row = row_of([victim], answer.screen)
        if row is not None and first and row < min(first) and not is_headline(row, answer.screen):
            said.append(f"the victim {victim} stands before the culprit")
    return Found(not said, "; ".join(said)) if truth.culprits else Found(None)


def tell_behind(answer, field, words):
    """Says whether the document has in one entry of a list what the screen lacks."""
    entries = [json.dumps(entry, ensure_ascii=False) for entry in (answer.document or {}).get(field, [])]
    return f"; {field}[] has it" if any(all(word in entry for word in words) for entry in entries) else ""


def is_headline(row, rows):
    """Whether a row stands above the first heading, where sentences and kills are told."""
    headings = [number for number, line in enumerate(rows) if line in ("Evidence", "Who is doing it")]
    return bool(headings) and row < headings[0]


def judge_place(truth, answer):
    if not truth.place:
        return Found(None)
    absent = [word for word in truth.place if not any(word in row for row in answer.screen)]
    elsewhere = tell_behind(answer, "culprits", absent)
    return Found(not absent, f"not named: {', '.join(absent)}{elsewhere}" if absent else "")


def judge_events(truth, answer):
    if not truth.events:
        return Found(None)
    # rows that go on are indented
    text = " ".join(" ".join(answer.screen).split())
    absent = [pattern for pattern in truth.events if not re.search(pattern, text, re.I)]
    elsewhere = tell_behind(answer, "events", [])
    return Found(not absent, f"nothing like: {', '.join(absent)}{elsewhere}" if absent else "")


def judge_since(truth, answer):
    """A time of day beside a word that makes it a beginning, within some seconds of the truth. The first row tells the
    window, whose ends are no beginnings of anything."""
    told = []
    for number, row in enumerate(answer.screen[1:], 1):
        for time in TIME.finditer(row):
            around = words_around(answer.screen, number, time)
            off = seconds_off(time, truth.since)
            if abs(off) <= SINCE_TOLERANCE_S and (SINCE_WORDS.search(around) or in_timeline(number, answer.screen)):
                return Found(True)
            told.append(f"{time[0]} ({off:+.0f} s)")
    began = clock(truth.since)
    if told:
        return Found(False, f"it began at {began}; told: {', '.join(told[:4])}")
    if any(change_off(change, truth) <= SINCE_TOLERANCE_S for change in (answer.document or {}).get("changes", [])):
        return Found(False, f"it began at {began}: changes[] has it, the screen has not")
    return Found(False, f"it began at {began}; no time but the window's")


def words_around(rows, number, time):
    """A row, and what the wrapping took from it: the end of the row before a time that begins one, and the beginning
    of the row after a time that ends one."""
    row = rows[number]
    before = rows[number - 1][-12:] if time.start() <= 8 else ""
    after = rows[number + 1][:12] if time.end() + 4 >= len(row) and number + 1 < len(rows) else ""
    return f"{before} {row} {after}"


def in_timeline(number, rows):
    """Whether a row stands under the heading of the timeline."""
    above = [row for row in rows[:number] if row and not row.startswith(" ")]
    return bool(above) and above[-1].startswith("Timeline")


def seconds_off(time, since):
    """How far a time of day is from a moment, by the local clock, on the nearest day."""
    moment = datetime.datetime.fromtimestamp(since)
    of_day = moment.hour * 3600 + moment.minute * 60 + moment.second + moment.microsecond / 1e6
    off = int(time[1]) * 3600 + int(time[2]) * 60 + int(time[3]) - of_day
    return (off + 43_200) % 86_400 - 43_200


def change_off(change, truth):
    """How far a change of the document is from the truth, seconds."""
    try:
        at = datetime.datetime.fromisoformat(str(change.get("at")).replace("Z", "+00:00"))
    except ValueError:
        return float("inf")
    return abs(at.timestamp() - truth.since)


def clock(seconds):
    return datetime.datetime.fromtimestamp(seconds).strftime("%H:%M:%S")


def judge_typed(typed, answer):
    """The parts `remedy` and `effect` of a screen, by what became of its commands."""
    if not typed:
        shown = remedies.commands_on(answer.screen)
        missing = Found(False, f"not tried: {shown[0]}" if shown else "no whole command on the screen")
        return {"remedy": missing, "effect": missing}
    worked = [one for one in typed if one["worked"]]
    said = "; ".join(f"{one['command']}: {one['because']}" for one in typed)
    if not worked:
        return {"remedy": Found(False, said), "effect": Found(False, "nothing was typed that worked")}
    helped = any(one["helped"] for one in worked)
    return {"remedy": Found(True, "" if worked[0] is typed[0] else f"not the first: {said}"),
            "effect": Found(helped, "" if helped and worked[0]["helped"] else said)}


def judge_effect(comparison):
    """What `compare` says of before and after a remedy."""
    outcome, sentence = comparison.get("outcome"), comparison.get("sentence", "")
    return Found(outcome == "helped", f"compare: {outcome}: {sentence}")
