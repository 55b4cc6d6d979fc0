"""What a demonstration does unless it says otherwise; `run` says when."""

from figures import summary


class Demonstration:
    """Has `seconds` and `settle`, and plays each side of its module by `play(machine, stage)`."""

    def prepare(self, keep, machine):
        """What is made once, before any side is played."""

    def seen(self, sides):
        """The sides that the page shows."""
        return sides

    def summaries(self, sides):
        return [summary(side.events, side.window) for side in sides]

    def compared(self, sides):
        """What `compare` is to hold side by side: the kernel's view of the first and the second."""
        return [side.paths[0] for side in sides[:2]]
