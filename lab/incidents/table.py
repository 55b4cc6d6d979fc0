"""The results of a run of incidents, for people."""

from incidents.judging import PARTS
from table import aligned

# In this order: rows of an incident.
VIEWS = ("live", "log")


def parts_of(result, view):
    """What was found of each part in a view; typed commands are judged with the log's answer."""
    return result.get("views", {}).get(view, {}).get("parts", {})


def cell(part):
    return {True: "yes", False: "NO", None: "-"}[part["right"]] if part else "-"


def outcome(result):
    if "skipped" in result:
        return "skipped"
    if "failed" in result:
        return "FAILED"
    return "whole" if not misses(result) else "WANTING"


def misses(result):
    """Each part that is missing: (view, part, because)."""
    return [(view, name, part["because"]) for view in VIEWS for name, part in parts_of(result, view).items()
            if part["right"] is False]


def table(results):
    rows = [["incident", "asked", *PARTS, "others", "remark"]]
    for result in results:
        if "views" not in result:
            rows.append([result["name"], "-", *["-"] * len(PARTS), "-", outcome(result) + ": " + remark(result)])
            continue
        for view in VIEWS:
            told = result["views"][view]
            rows.append([result["name"] if view == VIEWS[0] else "", view,
                         *(cell(told["parts"].get(part)) for part in PARTS), f"{told['others_share']:.0%}",
                         remark(result) if view == VIEWS[0] else ""])
    return aligned(rows)


def remark(result):
    said = [result[key] for key in ("skipped", "failed") if key in result]
    rates = result.get("victim", {})
    if rates:
        said.append("who suffers: " + ", ".join(f"{name} {value}/s" for name, value in rates.items()))
    return "; ".join(said)


def missing_lines(results):
    lines = []
    for result in results:
        lines += [f"{result['name']}, {view}: {part}: {because}" for view, part, because in misses(result)]
        for typed in result.get("typed", []):
            where = f"typed ({', '.join(typed['screens'])})" if typed["screens"] else "typed, though not on the screen"
            undone = f"; undone: {typed['undone']}" if "undone" in typed else ""
            lines.append(f"{result['name']}, {where}: {typed['command']}: {typed['because']}{undone}")
    return lines


def score(results):
    counts = {}
    for result in results:
        counts[outcome(result)] = counts.get(outcome(result), 0) + 1
    return ", ".join(f"{counts[key]} {key.lower()}" for key in ("whole", "WANTING", "FAILED", "skipped")
                     if key in counts) + f" of {len(results)}"
