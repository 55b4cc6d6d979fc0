"""Debian packages that are taken apart and never installed, for programs of the emulated machine.

Installing some of them would start servers on this machine.
"""

import glob
import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(os.path.dirname(HERE), "target", "lab-packages")
FOLDERS = ["usr/sbin", "sbin", "usr/bin", "bin"]
LIBRARIES = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/device-mapper"]


class NoPackage(Exception):
    """A package could not be had: no network, or no Debian."""


def unpack(packages):
    """Puts packages into one folder, those that are not yet there; returns the folder."""
    marks = os.path.join(ROOT, ".have")
    os.makedirs(marks, exist_ok=True)
    for name in packages:
        mark = os.path.join(marks, name)
        if os.path.exists(mark):
            continue
        fresh = f"{ROOT}.{os.getpid()}"
        os.makedirs(fresh, exist_ok=True)
        try:
            subprocess.run(["apt-get", "-q", "download", name], cwd=fresh, check=True,
                           stdin=subprocess.DEVNULL, capture_output=True)
            subprocess.run(["dpkg-deb", "-x", glob.glob(os.path.join(fresh, "*.deb"))[0], ROOT],
                           check=True, capture_output=True)
        except (subprocess.CalledProcessError, OSError, IndexError) as error:
            raise NoPackage(f"no package {name}: {error}") from None
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        with open(mark, "w", encoding="ascii"):
            pass
    return ROOT


def find(name, root):
    """A program of the unpacked packages, or of this machine."""
    path = os.pathsep.join([*(os.path.join(root, folder) for folder in FOLDERS), os.environ["PATH"],
                            "/usr/sbin", "/sbin"])
    return shutil.which(name, path=path)


def environment(root):
    """Where the programs' own libraries are looked for."""
    return os.environ | {"LD_LIBRARY_PATH": ":".join(os.path.join(root, folder) for folder in LIBRARIES)}


def inside(path, root):
    """The place of a file in the machine that it is taken to."""
    return "/" + os.path.relpath(path, root) if path.startswith(root + "/") else path
