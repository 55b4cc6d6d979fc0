"""Described systems as disks of this machine: `diskwright disk`, attached.

The server keeps the time of what `systems/*.toml` describe and records, in a
log of its own, what went on in the described parts; what it is told to do by
`order` (a member fails, a member is slow) it does while programs use it.
"""

import json
import os
import socket

HERE = os.path.dirname(os.path.abspath(__file__))
PLACES = (os.path.join(HERE, "systems"), os.path.join(os.path.dirname(HERE), "examples", "systems"))


def description(name):
    """The file of a system: one that is named, the lab's own, or one of the examples."""
    if name.endswith(".toml"):
        return name
    for place in PLACES:
        path = os.path.join(place, name + ".toml")
        if os.path.exists(path):
            return path
    raise KeyError(f"no system is described by the name {name}")


class VirtualDisk:
    """A system that is being served."""

    def __init__(self, machine, name, settings, speed=1):
        self.machine = machine
        self.name = os.path.basename(name).removesuffix(".toml")
        machine.made += 1
        self.socket = os.path.join(machine.folder, f"{self.name}-{machine.made}.socket")
        self.log = os.path.join(machine.logs, f"inside-{len(machine.systems) + 1}-{self.name}")
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        self.process = machine.start([machine.binary, "disk", description(name), "--socket", self.socket,
                                      "--record", self.log, "--every", "1s", "--speed", str(speed), *words])
        machine.wait_for(self._serves, f"{self.name} to be served", process=self.process)

    def _serves(self):
        return os.path.exists(self.socket) and os.path.exists(self.socket + ".control")

    def device(self, export=""):
        """The export as a block device of the kernel. The empty name is the default export."""
        return self.machine.attach(self.socket, export)

    def order(self, do, **words):
        """Tells the server something, and answers what it says."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
            control.settimeout(10)
            control.connect(self.socket + ".control")
            control.sendall((json.dumps({"do": do} | words) + "\n").encode())
            answer = control.makefile("r", encoding="utf-8").readline()
        document = json.loads(answer or "{}")
        if not answer or "error" in document:
            raise OSError(f"{self.name}: {do}: {document.get('error', 'no answer')}")
        return document
