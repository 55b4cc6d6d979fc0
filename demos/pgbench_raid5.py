"""PostgreSQL's pgbench on NT Magazine 1998's RAID 5: three disks, then ten."""

import os

from demonstration import Demonstration
from figures import (bars, chart, digits, format_rate, format_seconds, format_share, latency_curve, rate_curve, summary,
                     table)
from played import inside_section, kernel_section, setup_section, verdict_section
from postgres import Postgres, installing, temporary_user  # noqa: F401, run asks for `installing`
from predict import prediction
from stage import Side, run

MAKES = "pgbench at one rate on a RAID 5 of three and of ten 4 GB disks (NT Magazine 1998)"
NEEDS = ["chrt", "nbdcopy", "losetup", "mkfs.ext4", "setpriv", "useradd", "pg_ctlcluster"]
SIDES = [Side("three disks", "raid5", {"disk.count": 3}), Side("ten disks", "raid5", {"disk.count": 10})]
SECONDS, TINY_SECONDS = 90, 8
CLIENTS = 20  # users of NT Magazine 1998's test
RATE = 100  # transactions a second that are asked for
SPEED = 1000  # while the database is put on the disks


class Demo(Demonstration):
    def __init__(self, options):
        self.seconds = options.seconds or (TINY_SECONDS if options.tiny else SECONDS)
        self.settle = 2 if options.tiny else 10
        # a scale is 16 MB; so much that most pages still come from the disks at the end
        self.scale = 10 if options.tiny else 60
        self.size_mib = 384 if options.tiny else 2048
        self.rate = options.rate or RATE

    def prepare(self, keep, machine):
        """The database, made once in memory: both sides begin with the same bytes."""
        self.user = temporary_user(keep)
        self.image = os.path.join(keep.folder, "database.image")
        with open(self.image, "wb") as file:
            file.truncate(self.size_mib << 20)
        device = machine._attach(self.image)
        machine.output(["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", device])
        data = os.path.join(machine._mount(device), "data")
        os.mkdir(data)
        postgres = Postgres(machine, self.user)
        postgres.make(data, self.scale)
        self.version = postgres.version

    def play(self, machine, stage):
        """The same bytes, the same load. Returns the stretch watched and the transactions."""
        words = ["--size", f"{self.size_mib}MiB", "--backing", os.path.join(machine.folder, "content")]
        server, uri = stage.serve(*words, speed=SPEED, record=False)
        run(["nbdcopy", "--destination-is-zero", self.image, uri], 300)
        stage.stop(server)
        _, uri = stage.serve(*words)
        stage.attach(uri)
        data = stage.mount()
        postgres = Postgres(machine, self.user)
        postgres.start(data)
        load = postgres.bench(self.settle + self.seconds + 2, CLIENTS, self.rate)
        window = stage.watch(load, self.settle, self.seconds)
        stage.ends(load, 60)
        return window, postgres.transactions()

    def page(self, binary, sides):
        summaries = self.summaries(sides)
        queue = "physical_disk.avg_queue_length"
        queues = [(side.side.name, side.outside.course(queue, side.device, side.window[0])) for side in sides]
        kernel = {"title": "What the kernel saw, outside", "tables": [kernel_section(sides)],
                  "charts": [chart("Requests under way", "requests", "requests", queues)]}
        return {"title": conclusion(sides, summaries), "lead": [lead(side, one) for side, one in zip(sides, summaries)],
                "names": [side.side.name for side in sides],
                "sections": [self.application(sides, summaries), inside_section(sides), kernel, verdict_section(sides),
                             prediction(binary, sides, self.size_mib), setup_section(sides, self.facts())]}

    def application(self, sides, summaries):
        names = [side.side.name for side in sides]
        waited = [summary([(event[0], event[2]) for event in side.events], side.window) for side in sides]
        rows = [["asked for", *(format_rate(self.rate) for _ in sides)],
                ["transactions done", *(format_rate(one["per_s"]) for one in summaries)],
                ["time of a transaction, mean", *(format_seconds(one["mean_s"]) for one in summaries)],
                ["half of them within", *(format_seconds(one["p50_s"]) for one in summaries)],
                ["95 % within", *(format_seconds(one["p95_s"]) for one in summaries)],
                ["longest", *(format_seconds(one["max_s"]) for one in summaries)],
                ["late before it began, mean", *(format_seconds(one["mean_s"]) for one in waited)]]
        curves = [chart("Transactions a second", "per_s", "transactions a second",
                        [(side.side.name, rate_curve(side.events, side.window)) for side in sides]),
                  chart("95 % of the transactions of each second took at most", "s", "time of a transaction",
                        [(side.side.name, latency_curve(side.events, side.window)) for side in sides])]
        return {"title": "What the application saw", "charts": curves,
                "bars": [bars("Transactions a second", "per_s", names, [["done", [one["per_s"] for one in summaries]]],
                              full=max([self.rate, *(one["per_s"] for one in summaries)])),
                         bars("Time of a transaction", "s", names,
                              [["mean", [one["mean_s"] for one in summaries]],
                               ["95 %", [one["p95_s"] for one in summaries]]])],
                "tables": [table(["PostgreSQL", *names], rows)]}

    def facts(self):
        return [f"{self.version}, pgbench with two `select-only` to a `simple-update` (scale {self.scale}, "
                f"{self.scale * 16} MB) with {CLIENTS} clients and {digits(self.rate)} transactions a second asked "
                f"for, watched for {self.seconds} s after {self.settle} s. 16 MB of shared buffers and a cold file "
                "cache, so that pages come from the disks; every commit waits for its log."]


def conclusion(sides, summaries):
    """One sentence, from the numbers alone."""
    (a, b), (before, after) = sides, summaries
    if not before["count"] or not after["count"]:
        done = [side.side.name for side, one in zip(sides, summaries) if one["count"]]
        return f"Too little was done to compare: transactions only on {', '.join(done) or 'neither side'}."
    more, quicker = after["per_s"] / before["per_s"], before["mean_s"] / after["mean_s"]
    rate = (f"{digits(more)} times the transactions of" if more > 1.05 else
            "as many transactions as" if more > 0.95 else f"only {digits(more)} of the transactions of")
    times = f"each in {format_seconds(after['mean_s'])} instead of {format_seconds(before['mean_s'])}"
    time = (times if abs(quicker - 1) > 0.05 else
            f"each in {format_seconds(after['mean_s'])} as before")
    share, name = a.fullest_drive()
    why = f"{name} of the {a.side.name} was busy {format_share(share)} of the time" if share is not None else ""
    return (f"{b.side.name.capitalize()} carry {rate} {a.side.name} ({format_rate(after['per_s'])} and "
            f"{format_rate(before['per_s'])}), {time}" + (f": {why}." if why else "."))


def lead(side, summary):
    share, name = side.fullest_drive()
    return (f"{side.side.name.capitalize()}: {format_rate(summary['per_s'])}, "
            f"95 % within {format_seconds(summary['p95_s'])}; fullest "
            f"drive {name}, {format_share(share)} busy; `why` says {side.why_inside['bottleneck']} of what went on "
            f"inside and {side.why_outside['bottleneck']} of what the kernel saw.")
