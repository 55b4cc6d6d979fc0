"""One stream of 512-byte records on a fast disk that could pass hundreds of MB/s."""

TRUTH = "application"
MAKES = "one sequential reader of 512-byte records, not cached, on the machine's own disk"
NEEDS = ["fio"]


def start(machine):
    path, disk = machine.real_file(256)
    machine.fio(path, rw="read", bs="512", numjobs=1)
    return disk
