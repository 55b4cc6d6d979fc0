"""Runs `diskwright why` and compares its verdict with the truth."""

import collections
import concurrent.futures
import json
import subprocess
import time

import scenarios


class NoVerdict(Exception):
    """Diskwright failed or answered something that is no verdict."""


class Judge:
    """The Diskwright binary, seen through its commands."""

    def __init__(self, binary):
        self.binary = binary
        # options with which a live machine is asked
        self.words = []

    def record(self, folder, seconds, traced=None):
        """Records; where `traced` is a folder, a second recorder traces single requests at the same time."""
        words = ["record", folder, "--every", "1s", "--for", f"{seconds}s"]
        if traced is None:
            self._run(words, seconds + 60)
            return
        words_traced = ["record", traced, *words[2:], "--trace", "--trace-budget", "5%"]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for done in [pool.submit(self._run, each, seconds + 60) for each in (words, words_traced)]:
                done.result()

    def why(self, words, patience=120, window=None):
        """The verdict; `window` is a pair of times, seconds since 1970."""
        if window:
            words = [*words, "--from", format_utc(window[0]), "--to", format_utc(window[1])]
        verdict = self._json(["why", *words, "--json"], patience)
        if "bottleneck" not in verdict:
            raise NoVerdict(f"why {' '.join(words)}: no bottleneck in the answer")
        return verdict

    def live(self, seconds):
        return self.why(["--every", "1s", "--for", f"{seconds}s", *self.words], seconds + 120)

    def packs(self):
        """The ids of the rule packs, or none where the binary cannot list them."""
        try:
            answer = self._json(["list", "packs", "--json"], 30)
        except NoVerdict:
            return []
        return [pack["id"] for pack in answer.get("entries", [])]

    def pack_says(self, pack, folder):
        try:
            return self.why(["--pack", pack, folder])["bottleneck"]
        except NoVerdict:
            return "failed"

    def _json(self, words, patience):
        text = self._run(words, patience)
        try:
            return json.loads(text)
        except ValueError as error:
            raise NoVerdict(f"{' '.join(words[:2])}: no JSON: {error}") from error

    def _run(self, words, patience):
        try:
            done = subprocess.run([self.binary, *words], capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=patience, check=False)
        except subprocess.TimeoutExpired as error:
            raise NoVerdict(f"{' '.join(words[:2])}: no end after {patience} s") from error
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["nothing said"])[-1]
            raise NoVerdict(f"{' '.join(words[:2])}: exit {done.returncode}: {last}")
        return done.stdout


def format_utc(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03}Z"


def same_device(device, truth):
    """`/dev/loop2`, `loop2` and `btrfs data/loop2` mean the same device."""
    if not device or not truth:
        return False
    return str(device).rsplit("/", 1)[-1] == str(truth).rsplit("/", 1)[-1]


def listed(verdict):
    """The bottlenecks that a verdict lists, by name; the first is the verdict's own."""
    return [one["bottleneck"] for one in verdict.get("bottlenecks", [])]


def extra_bottlenecks(scenario, verdict):
    """Bottlenecks that are listed beside the truth although nothing made them, with their instances."""
    truths = collections.Counter(getattr(scenario, "truths", [scenarios.outside(scenario)]))
    extra = []
    for one in verdict.get("bottlenecks", []):
        if truths[one["bottleneck"]] > 0:
            truths[one["bottleneck"]] -= 1
        else:
            extra.append(f"{one['bottleneck']} {one['instance']}".rstrip())
    return extra


def missing_from_verdict(scenario, verdict, instance, traced=False):
    """Returns what the verdict lacks of all that the counters of the kernel show; None if nothing."""
    if isinstance(scenario, scenarios.Pair):
        absent = collections.Counter(scenario.truths) - collections.Counter(listed(verdict))
        return f"not listed: {', '.join(absent.elements())}" if absent else None
    wanted = scenarios.outside(scenario)
    if verdict["bottleneck"] != wanted:
        return f"outside should be {wanted}"
    rule, waits = getattr(scenario, "RULE", None), getattr(scenario, "WAITS", None)
    rule = getattr(scenario, "RULE_TRACED", rule) if traced else rule
    if rule and rule not in {finding["rule"] for finding in verdict["findings"]}:
        return f"without the finding {rule}"
    if waits and waits not in {sleep["kind"] for program in verdict["programs"] for sleep in program["sleeps"]}:
        return f"tells of no program that waits for: {waits}"
    if getattr(scenario, "INSTANCE_MATTERS", False) and not same_device(verdict.get("instance"), instance):
        return "blames another device"
    return None


def is_right_inside(scenario, verdict):
    """Whether what the described parts recorded names what is full. None where
    nothing is asked of that view."""
    wanted = scenarios.inside(scenario)
    if wanted is None:
        return None
    if verdict["bottleneck"] != wanted:
        return False
    part = getattr(scenario, "INSIDE_INSTANCE", None)
    return part is None or same_device(verdict.get("instance"), part)
