"""Base class of demonstrations: the default of each step, called by `run`."""

from figures import summary


class Demonstration:
    """Has `seconds` and `settle`, and plays each side of its module by `play(machine, stage)`."""

    def prepare(self, keep, machine):
        """Prepares what all sides share, before any side is played."""

    def seen(self, sides):
        """Returns the sides that the page shows."""
        return sides

    def summaries(self, sides):
        return [summary(side.events, side.window) for side in sides]

    def compared(self, sides):
        """Returns the logs for `compare`: the view of the kernel of the first and the second side."""
        return [side.paths[0] for side in sides[:2]]
