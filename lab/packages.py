"""Programs that the lab starts, and the Debian packages they come in."""

import os
import shutil
import subprocess
import sys

PACKAGE_OF = {
    "fio": "fio",
    "nbdkit": "nbdkit",
    "nbdfuse": "libnbd-bin",
    "fusermount3": "fuse3",
    "mkfs.btrfs": "btrfs-progs",
    "mkfs.ext4": "e2fsprogs",
    "losetup": "mount",
    "mkswap": "util-linux",
    "partx": "util-linux",
    "strace": "strace",
    "sar": "sysstat",
    "sadf": "sysstat",
    "strip": "binutils",
    "zstd": "zstd",
    "unshare": "util-linux",
    "chattr": "e2fsprogs",
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "depmod": "kmod",
    "mdadm": "mdadm",
    "nbdcopy": "libnbd-bin",
    "setpriv": "util-linux",
    "chrt": "util-linux",
    "useradd": "passwd",
    "pg_ctlcluster": "postgresql",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "podman": "podman",
    "runc": "runc",
    "conmon": "conmon",
}
# What comes in use with a program, without being named by each scenario.
ALONG_WITH = {"mkfs.btrfs": ["chattr"], "qemu-system-x86_64": ["busybox", "depmod"],
              "podman": ["runc", "conmon", "busybox"]}


def programs_of(needs):
    return sorted({*needs, *(more for need in needs for more in ALONG_WITH.get(need, []))})


def missing(needs):
    return [program for program in programs_of(needs) if not shutil.which(program)]


def install(needs):
    """Installs the packages of missing programs, when that is possible at all.

    Success is judged by the programs, by those who call `missing` again: apt
    also fails for an unrelated package that was left half installed.
    """
    packages = sorted({PACKAGE_OF[program] for program in missing(needs)})
    if not packages or os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    print(f"installing {' '.join(packages)}", file=sys.stderr)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        subprocess.run(["apt-get", "-q", *words], env=environment, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
