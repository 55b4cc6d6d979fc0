"""The figures, for people."""


def error_of(result):
    """How far the prediction is from what was measured, as a share of that."""
    return result["predicted"]["iops"] / result["measured"]["iops"] - 1


def is_disturbed(result):
    """Whether this machine's other work spoiled every try: then nothing was measured."""
    return result["measured"].get("disturbed", False)


def format_error(result):
    return "disturbed" if is_disturbed(result) else f"{error_of(result):+.1%}"


def text(document):
    lines = [f"Requests a second, counted for {document['measured_s']} s; what the model told before,"
             " and how far that is off."]
    for part in document["parts"]:
        lines += ["", *part_lines(part)]
    if "ended_by" in document:
        lines += ["", f"ended by {document['ended_by']}"]
    results = [one for part in document["parts"] for one in part["results"]]
    return "\n".join([*lines, "", summary(results)])


def part_lines(part):
    lines = [f"{part['by']}, {part['set']}: {part.get('kernel', '')}, members {part.get('members', 'none')}"]
    calibration = part.get("calibration")
    if calibration:
        rates = ", ".join(f"{rate:.1f}/s at {mix} % reads" for mix, rate in calibration["iops"].items())
        alone = calibration["one_outstanding_ms"]
        lines.append(f"one member, nominally {calibration['nominal_iops']}/s: {rates}"
                     + (f"; one request at a time {alone:.1f} ms" if alone else ""))
    lines += [f"{outcome.upper()}: {part[outcome]}" for outcome in ("skipped", "failed") if outcome in part]
    return lines + (["", *table(part["results"])] if part["results"] else [])


def table(results):
    loads = list(dict.fromkeys(one["load"] for one in results))
    levels = list(dict.fromkeys(one["level"] for one in results))
    cells = {(one["level"], one["load"]): one for one in results}
    lines = [["", *loads]]
    for level in levels:
        row = [cells.get((level, load)) for load in loads]
        lines.append([level, *(f"{one['measured']['iops']:.1f}" if one else "-" for one in row)])
        lines.append(["  predicted", *(f"{one['predicted']['iops']:.1f}" if one else "-" for one in row)])
        lines.append(["  off by", *(format_error(one) if one else "-" for one in row)])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return ["  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                      for column, (cell, width) in enumerate(zip(line, widths))) for line in lines]


def summary(results):
    undisturbed = [one for one in results if not is_disturbed(one)]
    if not undisturbed:
        return "nothing was measured"
    errors = [abs(error_of(one)) for one in undisturbed]
    worst = max(undisturbed, key=lambda one: abs(error_of(one)))
    text = (f"{sum(error <= 0.1 for error in errors)} of {len(errors)} within 10 %;"
            f" mean error {sum(errors) / len(errors):.1%}; worst {error_of(worst):+.1%}"
            f" ({worst['level']}, {worst['load']})")
    spoiled = len(results) - len(undisturbed)
    return text + (f"; {spoiled} spoiled by other work on this machine" if spoiled else "")
