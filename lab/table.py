"""The results, for people."""

from others import BUSY_SHARE


def aligned(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
             for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def verdicts(results):
    rows = [["scenario", "truth", "outside", "instance", "confidence", "inside", "right?", "remark"]]
    for result in results:
        rows.append([result["name"], result["truth"], result.get("verdict") or "-",
                     short_instance(result), confidence(result), inside_verdict(result), outcome(result),
                     remark(result)])
    if any("traced" in result for result in results):
        rows[0].insert(-1, "with a trace")
        for row, result in zip(rows[1:], results):
            row.insert(-1, traced_verdict(result))
    return aligned(rows)


def traced_verdict(result):
    """The verdict with single requests, and the first rule that it stands on."""
    traced = result.get("traced")
    if not traced:
        return "-"
    rule = next(iter(traced["rules"]), "no finding")
    return f"{'right' if traced['right'] else 'WRONG'}: {traced['verdict']} ({rule})"


def inside_verdict(result):
    """The verdict of what the served system recorded of itself, and the part that it names."""
    verdicts = result.get("inside")
    if not verdicts:
        return "-"
    return ", ".join(f"{one['verdict']} {one['instance'] or ''}".rstrip() for one in verdicts)


def short_instance(result):
    instance, truth = result.get("instance"), result.get("expected_instance")
    if not instance:
        return "-"
    if result.get("instance_right") is False:
        return f"{instance} (is {truth})"
    return str(instance)


def confidence(result):
    value = result.get("confidence")
    return "-" if value is None else f"{value:.2f}"


def outcome(result):
    if "skipped" in result:
        return "skipped"
    if "failed" in result:
        return "FAILED"
    return "right" if result["right"] and not wrong_inside(result) else "WRONG"


def wrong_inside(result):
    return any(one["right"] is False for one in result.get("inside", []))


def remark(result):
    remarks = [result[key] for key in ("skipped", "failed") if key in result]
    if not remarks and not result["right"]:
        remarks.append(result["wrong"])
    if not remarks and wrong_inside(result):
        remarks.append(f"inside should be {result['inside_truth']} {result.get('inside_instance') or ''}".rstrip())
    if "outside" in result and result["outside"] != result["truth"] and not remarks:
        remarks.append(f"{result['outside']} is all that the kernel can know")
    if result.get("extra"):
        remarks.append(f"beside it: {', '.join(result['extra'])}")
    share = result.get("others_cpu_share", 0)
    if share > BUSY_SHARE:
        remarks.append(f"others used {share:.0%} of the processors")
    return "; ".join(remarks)


def pack_table(results):
    """Table of the verdict of each pack on each recorded log; empty where nothing was recorded."""
    judged = [result for result in results if "packs" in result and "skipped" not in result]
    names = list(dict.fromkeys(name for result in judged for name in result["packs"]))
    if not names:
        return ""
    rows = [["scenario", "truth", *names]]
    for result in judged:
        rows.append([result["name"], result["truth"],
                     *(result["packs"].get(name, "-") for name in names)])
    return aligned(rows)


def score(results):
    counts = {}
    for result in results:
        counts[outcome(result)] = counts.get(outcome(result), 0) + 1
    text = ", ".join(f"{counts[key]} {key.lower()}"
                     for key in ("right", "WRONG", "FAILED", "skipped") if key in counts)
    judged = [result for result in results if "extra" in result]
    extra = sum(1 for result in judged if result["extra"])
    return f"{text}; {extra} of {len(judged)} with a bottleneck that nothing made" if judged else text
