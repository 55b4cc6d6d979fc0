"""The results, for people: a line a case, then what must hold of those where it did not."""

import textwrap

from table import aligned

OUTCOMES = ("held", "broken", "failed", "skipped")


def score(document):
    counts = [(sum(row["outcome"] == outcome for row in document["cases"]), outcome) for outcome in OUTCOMES]
    return ", ".join(f"{count} {outcome}" for count, outcome in counts if count) + f"; {document['took_s']} s"


def table(document):
    """A table for a page of text: it is Markdown too."""
    rows = [["case", "what was tried", "what must hold", "what happened", "held?"]]
    rows += [[row["name"], row["tried"], row["must"], row["happened"],
              row["outcome"] if row["outcome"] == "held" else row["outcome"].upper()] for row in document["cases"]]
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    cells.insert(1, ["---"] * len(rows[0]))
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([*lines, "", score(document)])


def narrow(document, columns=100):
    """The same for a terminal: name and outcome, and below them the words."""
    lines = [aligned([["case", "held?", "s"], *([row["name"], row["outcome"], str(row["seconds"])]
                                                for row in document["cases"])]), ""]
    for row in document["cases"]:
        if row["outcome"] != "held":
            text = f"{row['name']}: tried: {row['tried']}. Must hold: {row['must']}. Happened: {row['happened']}."
            lines += textwrap.wrap(text, columns, subsequent_indent="    ")
    return "\n".join([*lines, "", score(document)])
