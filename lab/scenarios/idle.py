"""Nothing is done on purpose."""

TRUTH = "none"
MAKES = "no load at all"
NEEDS = []


def start(machine):
    return None
