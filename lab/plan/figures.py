"""The figures, for people: a row for each quantity of each load, with its limit."""

from quiet import is_quiet

# Key, title, scale, and the option whose limit it has.
QUANTITIES = (("requests_per_s", "requests/s", 1, "within_requests"),
              ("response_s", "response, ms", 1e3, "within_response"))
TITLES = ("set", "run", "disks", "load", "quantity", "measured", "predicted", "error", "limit", "")


def error_of(result, key):
    """How far a prediction is from what was measured, as a share of that."""
    return result["predicted"][key] / result["measured"][key] - 1


def rows(document):
    """Every comparison: its cells, and whether it is within its limit."""
    found = []
    for part in document["parts"]:
        for result in part["results"]:
            for key, title, scale, option in QUANTITIES:
                error, limit = error_of(result, key), document["limits"][option]
                passed = abs(error) * 100 <= limit
                cells = [part["set"], str(part.get("run", 1)), str(part["disks"]), result["load"], title,
                         f"{result['measured'][key] * scale:.1f}", f"{result['predicted'][key] * scale:.1f}",
                         f"{error:+.1%}", f"{limit:g} %", "pass" if passed else "MISS"]
                found.append((cells, passed, abs(error)))
    return found


def has_missed(document):
    """Whether anything was missed, or was not measured."""
    is_short = any(not part["results"] or "failed" in part for part in document["parts"])
    return is_short or not document["parts"] or not all(passed for _, passed, _ in rows(document))


def table(lines):
    """Lines of cells, each column as wide as its widest; numbers are on the right."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(TITLES))]
    numbers = {1, 2, 5, 6, 7, 8}
    aligned = (lambda column, cell: cell.rjust(widths[column]) if column in numbers else cell.ljust(widths[column]))
    return ["  ".join(aligned(column, cell) for column, cell in enumerate(line)).rstrip() for line in lines]


def part_lines(part):
    lines = [f"{part['set']}, run {part.get('run', 1)}: {part.get('kernel', '')}"]
    lines += [f"  {kind.upper()}: {part[kind]}" for kind in ("skipped", "failed") if kind in part]
    if "member" in part:
        lines.append(f"  a member as `probe quick` describes it: {part['member']}")
    for kind in ("arrivals", "users"):
        if f"{kind}_before" in part:
            got, before = part[f"{kind}_before"], part.get("disks_before", 3)
            lines.append(f"  {before} disks, {kind}: {got['requests_per_s']:.1f}/s in {got['response_s'] * 1e3:.1f} ms")
    if "model_error" in part:
        lines.append(f"  the model of what there is was off by {part['model_error']:.1%}")
    if "late_share" in part:
        lines.append(f"  this machine was late for {part['late_share']:.1%} of the time")
    met = [part[key] for key in ("company_before", "company_after") if key in part]
    if met:
        loads = ", then ".join(f"load average {one['load_average']}, {one['compilers']} compilers" for one in met)
        lines.append(f"  {loads}: {'quiet' if is_quiet(part) else 'NOT QUIET'}")
    return lines


def text(document):
    lines = ["Predicted before the disks were there, and measured when they were."]
    for part in document["parts"]:
        lines += ["", *part_lines(part)]
    if "ended_by" in document:
        lines += ["", f"ended by {document['ended_by']}"]
    found = rows(document)
    if found:
        lines += ["", *table([list(TITLES), *(cells for cells, _, _ in found)])]
        errors, passed = [error for _, _, error in found], sum(passed for _, passed, _ in found)
        lines += ["", f"{passed} of {len(found)} within their limits; mean error {sum(errors) / len(errors):.1%};"
                  f" worst {max(errors):.1%}; {document['took_s']} s"]
    return "\n".join(lines)
