"""The figures, for people."""

QUANTITIES = (("requests_per_s", "requests/s", 1), ("response_s", "response, ms", 1e3))


def error_of(result, key):
    """How far a prediction is from what was measured, as a share of that."""
    return result["predicted"][key] / result["measured"][key] - 1


def errors(document):
    return [abs(error_of(result, key)) for part in document["parts"] for result in part["results"]
            for key, _, _ in QUANTITIES]


def part_lines(part):
    lines = [f"{part['set']}: {part.get('kernel', '')}"]
    lines += [f"{kind.upper()}: {part[kind]}" for kind in ("skipped", "failed") if kind in part]
    if "member" in part:
        lines.append(f"a member as `probe quick` describes it: {part['member']}")
    for kind in ("arrivals", "users"):
        if f"{kind}_before" in part:
            got = part[f"{kind}_before"]
            lines.append(f"3 disks, {kind}: {got['requests_per_s']:.1f}/s in {got['response_s'] * 1e3:.1f} ms")
    if "model_error" in part:
        lines.append(f"the model of what there is was off by {part['model_error']:.1%}")
    for result in part["results"]:
        cells = [f"{title} {result['measured'][key] * scale:.1f}, predicted {result['predicted'][key] * scale:.1f}"
                 f" ({error_of(result, key):+.1%})" for key, title, scale in QUANTITIES]
        lines.append(f"{part['disks']} disks, {result['load']}: {'; '.join(cells)}")
    if "late_share" in part:
        lines.append(f"this machine was late for {part['late_share']:.1%} of the time")
    return lines


def text(document):
    lines = ["Predicted before the disks were there, and measured when they were."]
    for part in document["parts"]:
        lines += ["", *part_lines(part)]
    if "ended_by" in document:
        lines += ["", f"ended by {document['ended_by']}"]
    found = errors(document)
    if found:
        lines += ["", f"{sum(error <= 0.1 for error in found)} of {len(found)} within 10 %;"
                  f" mean error {sum(found) / len(found):.1%}; worst {max(found):.1%}; {document['took_s']} s"]
    return "\n".join(lines)
