"""A daemon of `sshd` on the loopback interface, with keys of its own, to ask this machine as if it were another one."""

import os
import shutil
import socket
import subprocess
import tempfile
import time

SSHD = "/usr/sbin/sshd"
# Where an ordinary host has its programs; ours is not among them.
PLAIN_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
WAYS = ("program", "copied", "shell")
START_PATIENCE_S = 10


class Sshd:
    """The host `lab` of a configuration of ssh, which finds the binary on its PATH if the way is `program`."""

    def __init__(self, binary, way):
        self.way = way
        self.folder = tempfile.mkdtemp(prefix="diskwright-lab-ssh-")
        path = PLAIN_PATH
        if way == "program":
            os.mkdir(os.path.join(self.folder, "bin"))
            os.symlink(os.path.abspath(binary), os.path.join(self.folder, "bin", "diskwright"))
            path = f"{self.folder}/bin:{PLAIN_PATH}"
        self.port = free_port()
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", os.path.join(self.folder, key)],
                           check=True)
        os.makedirs("/run/sshd", exist_ok=True)
        self.write("sshd_config", [
            f"Port {self.port}", "ListenAddress 127.0.0.1", f"HostKey {self.folder}/host",
            f"AuthorizedKeysFile {self.folder}/user.pub", "StrictModes no", "UsePAM yes", "PermitRootLogin yes",
            "PasswordAuthentication no", "PidFile none", f"SetEnv PATH={path}"])
        self.config = self.write("config", [
            "Host lab", "HostName 127.0.0.1", f"Port {self.port}", f"IdentityFile {self.folder}/user",
            "IdentitiesOnly yes", "StrictHostKeyChecking no", f"UserKnownHostsFile {self.folder}/known",
            "LogLevel ERROR"])
        self.daemon = subprocess.Popen([SSHD, "-D", "-f", os.path.join(self.folder, "sshd_config")],
                                       stderr=subprocess.DEVNULL)
        self.wait()

    def write(self, name, lines):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        return path

    def wait(self):
        end = time.monotonic() + START_PATIENCE_S
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError(f"sshd does not listen on port {self.port}")

    def words(self):
        """Options of a command that ask this host in this way."""
        copy = ["--ssh-copy"] if self.way == "copied" else []
        return ["--ssh", "lab", f"--ssh-config={self.config}", *copy]

    def stop(self):
        self.daemon.kill()
        self.daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
