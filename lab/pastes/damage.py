"""Ways in which people mistreat output before they post it. Each takes lines and returns others."""

import re


def half(lines):
    """The second half is missing."""
    return lines[: max(len(lines) // 2, 1)]


def last_half(lines):
    """The beginning is missing."""
    return lines[len(lines) // 2 :]


def every_third_dropped(lines):
    """Lines are missing here and there."""
    return [line for number, line in enumerate(lines) if number % 3 != 2]


def first_rows(lines):
    """Hardly more than the headings."""
    return lines[:4]


def narrow(lines):
    """The terminal cut what is beyond 60 columns."""
    return [line[:60] for line in lines]


def last_column_dropped(lines):
    """The last word of each line is missing."""
    return [line.rsplit(None, 1)[0] if len(line.split()) > 1 else line for line in lines]


def one_column_dropped(lines):
    """A column in the middle is missing, its heading too."""

    def without(line):
        words = line.split()
        return " ".join(words[:5] + words[6:]) if len(words) > 7 else line

    return [without(line) for line in lines]


def headings_dropped(lines):
    """Lines without a digit are missing."""
    return [line for line in lines if re.search(r"\d", line)]


def cut_in_the_middle(lines):
    """The middle third is missing, and nothing tells it."""
    third = len(lines) // 3
    return lines[:third] + lines[len(lines) - third :] if third else lines


def one_report(lines):
    """Of several reports or rows, the first is kept: up to the second heading, or four rows below the first."""
    headings = [number for number, line in enumerate(lines) if line.strip() and not re.search(r"\d", line)]
    later = [number for number in headings if lines[number] in lines[:number] and number > 0]
    return lines[: later[0]] if later else lines[: headings[-1] + 2] if headings else lines[:1]


def digits_cut(lines):
    """The last digit of long numbers is missing, as where columns touch."""
    return [re.sub(r"\b(\d{5,})\d\b", r"\1", line) for line in lines]


DAMAGES = [
    half,
    last_half,
    every_third_dropped,
    first_rows,
    narrow,
    last_column_dropped,
    one_column_dropped,
    headings_dropped,
    digits_cut,
    cut_in_the_middle,
    one_report,
]


def all_damages(texts):
    """Each kind of damage done to all texts: its name, and the texts."""
    for kind in DAMAGES:
        yield kind.__name__, ["\n".join(kind(text.splitlines())) + "\n" for text in texts]
    for number in range(len(texts) if len(texts) > 1 else 0):
        yield f"without_tool_{number + 1}", texts[:number] + texts[number + 1 :]
