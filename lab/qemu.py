"""An emulated machine: Debian's stock kernel in QEMU's software emulation.

For what this machine's own kernel cannot do, because it was built without md,
nbd or whatever else. Nothing of the host is used but a package that is
downloaded and taken apart (never installed), and no /dev/kvm is needed:

    with undoing("name") as undo:
        guest = Guest(undo, folder, drives=[Drive("/dev/shm/disk", iops=100)],
                      modules=["raid456"], programs=["mdadm", "fio"])
        print(guest.sh("mdadm --detail /dev/md0"))

The first drive is /dev/vda; `Drive(model=...)` has NVMe, SATA and SCSI drives, too, and
`Guest.qmp` sets what they say of themselves. The machine has one processor, no disk of its
own and no network unless asked (`network=True`: the host is 10.0.2.2). All of it
lives in memory and is gone when the process is; `undo` ends the process.
Software emulation is slow: about 0.2 ms of a processor for each 4 KB request.
"""

import base64
import glob
import json
import os
import re
import select
import shutil
import socket
import subprocess
import time

import unpacked

HERE = os.path.dirname(os.path.abspath(__file__))
# Another name when more is kept, so that an older copy is not taken for whole.
CACHE = os.path.join(os.path.dirname(HERE), "target", "lab-kernel-5")
# What is kept of the kernel package: 90 of its 330 MB.
KEPT = ["./boot/vmlinuz-*", "./lib/modules/*/modules.*",
        *(f"./lib/modules/*/kernel/{part}" for part in
          ("arch", "block", "crypto", "lib", "fs/btrfs", "fs/ext4", "fs/jbd2", "fs/mbcache.ko", "fs/xfs",
           "fs/configfs", "fs/nfs", "fs/nfsd", "fs/nfs_common", "fs/lockd", "fs/fscache", "fs/netfs", "fs/fuse",
           "drivers/block", "drivers/md", "drivers/scsi", "drivers/nvme", "drivers/ata",
           "drivers/virtio", "drivers/char/virtio_console.ko", "drivers/hwmon",
           "drivers/usb/host", "drivers/usb/storage", "drivers/usb/core", "drivers/usb/common",
           "drivers/net/virtio_net.ko", "drivers/net/net_failover.ko", "drivers/net/veth.ko",
           "net/core", "net/ipv4/inet_diag.ko", "net/ipv4/tcp_diag.ko", "net/sunrpc", "net/sched",
           "net/dns_resolver"))]
# Asked for by name at run time, so no dependency that depmod sees.
SOFT = {"libcrc32c": ["crc32c_generic"], "crc64-rocksoft": ["crc64_rocksoft_generic"],
        "jbd2": ["crc32c_generic"]}
ALWAYS = ["virtio_pci", "virtio_blk"]
# What stands before drives of each model, and the drivers that the guest needs for them.
CONTROLLERS = {"sata": ["-device", "ahci,id=ahci"], "scsi": ["-device", "virtio-scsi-pci,id=scsi"]}
MODULES_OF = {"virtio": [], "nvme": ["nvme"], "sata": ["ahci", "sd_mod"],
              "scsi": ["virtio_scsi", "sd_mod"]}
DONE = b"@@lab-done "
# By the processor's own counter, which the kernel measures at boot, its clock goes wrong
# on a busy machine; the emulated HPET tells its own rate, and that is the host's clock.
KERNEL_WORDS = "console=ttyS0 quiet mitigations=off panic=1 clocksource=hpet"

INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /run /tmp /mnt /sbin /usr/bin /usr/sbin /root
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm
mount -t tmpfs tmpfs /dev/shm
echo 3 > /proc/sys/kernel/printk
for module in $(cat /modules.list); do insmod $module || echo "no $module" > /dev/console; done
ip link set lo up
if [ -e /sys/class/net/eth0 ]; then
    ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up; ip route add default via 10.0.2.2
fi
exec < /dev/ttyS1 > /dev/ttyS1 2>&1
stty raw -echo
echo "@@lab-done 0"
while read -r line; do
    echo "$line" | base64 -d > /run/job
    sh /run/job < /dev/null
    echo "@@lab-done $?"
done
poweroff -f
"""


class GuestError(Exception):
    """The emulated machine, or a command in it, did not do what it should."""


class NoKernel(GuestError):
    """The stock kernel could not be had: no network, or no Debian."""


class Drive:
    """A drive of the guest: a raw file, or a block device of this machine, which is used
    past the page cache (`direct`). `model` is how it is attached: virtio, nvme, sata, scsi.

    `iops` has QEMU hold it to so many requests a second by a bucket that lets
    through what was not used within the last 0.1 s (util/throttle.c), and `bytes_per_s`
    to so many bytes by another one.
    """

    def __init__(self, path, iops=None, direct=False, bytes_per_s=None, model="virtio"):
        self.path, self.iops, self.direct, self.bytes_per_s = path, iops, direct, bytes_per_s
        self.model = model

    def words(self, number):
        options = f"file={self.path},format=raw,cache={'none' if self.direct else 'unsafe'}"
        cap = f",throttling.iops-total={self.iops}" if self.iops else ""
        cap += f",throttling.bps-total={self.bytes_per_s}" if self.bytes_per_s else ""
        # A queue and a thread of its own, so that one virtio drive does not wait for another.
        device = {
            "virtio": ["-object", f"iothread,id=thread{number}",
                       "-device", f"virtio-blk-pci,drive=drive{number},iothread=thread{number}"],
            "nvme": ["-device", f"nvme,id=disk{number},serial=made-up-{number},drive=drive{number}"],
            "sata": ["-device", f"ide-hd,id=disk{number},bus=ahci.{number},drive=drive{number}"],
            "scsi": ["-device", f"scsi-hd,id=disk{number},bus=scsi.0,drive=drive{number}"],
        }[self.model]
        return ["-drive", f"if=none,id=drive{number},{options}{cap}", *device]


def sparse(path, size_mib):
    """A file of holes, for a drive."""
    with open(path, "wb") as file:
        file.truncate(size_mib << 20)
    return path


def kernel():
    """The newest stock kernel's release, image and modules, downloaded when not yet there."""
    found = sorted(glob.glob(os.path.join(CACHE, "boot", "vmlinuz-*")))
    if not found:
        try:
            _download()
        except (GuestError, OSError, IndexError) as error:
            raise NoKernel(f"no stock kernel: {error}") from None
        found = sorted(glob.glob(os.path.join(CACHE, "boot", "vmlinuz-*")))
    if not found:
        raise GuestError("the kernel package held no kernel")
    release = os.path.basename(found[-1]).removeprefix("vmlinuz-")
    return release, found[-1], os.path.join(CACHE, "lib", "modules", release)


def _download():
    fresh = f"{CACHE}.{os.getpid()}"
    shutil.rmtree(fresh, ignore_errors=True)
    os.makedirs(fresh)
    try:
        dependencies = _output(["apt-cache", "depends", "linux-image-amd64"])
        name = re.search(r"Depends: (linux-image-\S+)", dependencies)
        if not name:
            raise GuestError("apt knows no kernel package; apt-get update?")
        # _apt may not write here, and apt says so at length.
        _output(["apt-get", "-q", "download", name[1]], cwd=fresh)
        package = glob.glob(os.path.join(fresh, "*.deb"))[0]
        unpack = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE)
        _output(["tar", "-x", "--wildcards", "-C", fresh, *KEPT], stdin=unpack.stdout)
        unpack.wait()
        os.unlink(package)
        release = os.listdir(os.path.join(fresh, "lib", "modules"))[0]
        _output(["depmod", "-b", fresh, release])
        shutil.rmtree(CACHE, ignore_errors=True)
        os.rename(fresh, CACHE)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _output(argv, **more):
    done = subprocess.run(argv, capture_output=True, text=True, check=False,
                          **{"stdin": subprocess.DEVNULL} | more)
    if done.returncode:
        raise GuestError(f"{' '.join(argv)[:120]}: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout


def module_files(folder, names):
    """The files of modules and of all that they stand on, in the order to load them."""
    needs, by_name = {}, {}
    with open(os.path.join(folder, "modules.dep"), encoding="ascii") as file:
        for line in file:
            path, _, rest = line.partition(":")
            needs[path] = rest.split()
            by_name[os.path.basename(path).split(".")[0].replace("-", "_")] = path
    with open(os.path.join(folder, "modules.builtin"), encoding="ascii") as file:
        built_in = {os.path.basename(line.strip())[:-3].replace("-", "_") for line in file}
    order = []

    def take(path):
        for before in SOFT.get(os.path.basename(path).split(".")[0], []):
            take(by_name[before])
        for before in needs[path]:
            take(before)
        if path not in order:
            order.append(path)

    for name in names:
        if name in by_name:
            take(by_name[name])
        elif name not in built_in:
            raise GuestError(f"the stock kernel has no module {name}")
    return order


class Archive:
    """An initramfs: the cpio format "newc", which the kernel unpacks into memory."""

    def __init__(self, path):
        self.file = open(path, "wb")
        self.made = set()
        self.number = 0

    def add(self, path, content, mode=0o100755):
        path = path.lstrip("/")
        folder = os.path.dirname(path)
        if folder and folder not in self.made:
            self.add(folder, b"", 0o040755)
        if path in self.made:
            return
        self.made.add(path)
        self._entry(path, content, mode)

    def add_file(self, source, path=None):
        with open(source, "rb") as file:
            self.add(path or source, file.read())

    def _entry(self, path, content, mode):
        self.number += 1
        name = path.encode() + b"\0"
        fields = [self.number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0]
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
        for part in (head, content):
            self.file.write(part + b"\0" * (-len(part) % 4))

    def close(self):
        self._entry("TRAILER!!!", b"", 0)
        self.file.close()


def libraries(program, environment=None):
    """The libraries that a program is started with."""
    output = subprocess.run(["ldd", program], capture_output=True, text=True, check=False,
                          env=environment).stdout
    return re.findall(r"(/\S+) \(0x", output)


def build_initramfs(path, modules, programs, files, packages=()):
    """Writes an initramfs with the modules, the programs (names or paths, also of `packages`)
    with their libraries, and `files`: where each goes, and the file it is taken from."""
    _, _, folder = kernel()
    archive = Archive(path)
    busybox = shutil.which("busybox")
    if not busybox or libraries(busybox):
        raise GuestError("no static busybox (Debian: busybox-static)")
    archive.add_file(busybox, "bin/busybox")
    archive.add("init", INIT.encode())
    loaded = []
    for module in module_files(folder, [*ALWAYS, *modules]):
        loaded.append("/modules/" + os.path.basename(module))
        archive.add_file(os.path.join(folder, module), loaded[-1])
    archive.add("modules.list", "\n".join(loaded).encode(), 0o100644)
    try:
        root = unpacked.unpack(packages)
    except unpacked.NoPackage as error:
        raise NoKernel(str(error)) from None
    for name in programs:
        program = unpacked.find(name, root)
        if not program:
            raise GuestError(f"no program {name} to take along")
        archive.add_file(program, "usr/bin/" + os.path.basename(program))
        for library in libraries(program, unpacked.environment(root)):
            archive.add_file(library, unpacked.inside(library, root))
    for where, source in (files or {}).items():
        archive.add_file(source, where)
    archive.close()


def stripped(binary, folder):
    """The binary without its debugging information, which would fill the guest's memory."""
    small = os.path.join(folder, "diskwright")
    subprocess.run(["strip", "-o", small, binary], check=True)
    return small


class Guest:
    """A machine that is up. `undo` is a run's `Undo`, `folder` a private folder."""

    def __init__(self, undo, folder, drives=(), modules=(), programs=(), files=None,
                 network=False, memory_mib=768, patience=180, processors=1, packages=(), name=None):
        self.folder, self.read = folder, b""
        models = {drive.model for drive in drives}
        modules = [*(module for model in sorted(models) for module in MODULES_OF[model]),
                   *modules, *(["virtio_net"] if network else [])]
        image = os.path.join(folder, "initramfs")
        build_initramfs(image, modules, programs, files, packages)
        self.console = os.path.join(folder, "console")
        path = os.path.join(folder, "guest.socket")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(1)
            listener.settimeout(30)
            words = ["qemu-system-x86_64", "-accel", "tcg", "-m", str(memory_mib), "-nodefaults",
                     "-smp", str(processors),
                     "-qmp", f"unix:{folder}/qmp.socket,server=on,wait=off",
                     "-display", "none", "-no-reboot", "-kernel", kernel()[1], "-initrd", image,
                     "-append", KERNEL_WORDS,
                     "-serial", f"file:{self.console}",
                     "-chardev", f"socket,id=shell,path={path}", "-serial", "chardev:shell"]
            words += ["-name", f"guest={name},debug-threads=on"] if name else []
            for model in sorted(models):
                words += CONTROLLERS.get(model, [])
            for number, drive in enumerate(drives):
                words += drive.words(number)
            if network:
                words += ["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net"]
            with open(os.path.join(folder, "qemu.log"), "wb") as log:
                self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL,
                                                stdout=log, stderr=log, start_new_session=True)
            undo.push("kill", self.process.pid)
            self.shell = self._accept(listener)
        self._answer(patience, "to come up")

    def _accept(self, listener):
        try:
            return listener.accept()[0]
        except TimeoutError:
            raise GuestError(f"QEMU did not start: {self._tail('qemu.log')}") from None

    def _tail(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as file:
            return file.read()[-400:].strip()

    def _answer(self, patience, action):
        """What the guest's shell wrote until a command was done, and its exit code."""
        end = time.monotonic() + patience
        while not (done := re.search(DONE + rb"(\d+)\r?\n", self.read)):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.shell], [], [], left)[0]:
                raise GuestError(f"waited {patience} s for the guest {action}; {self._tail('console')}")
            some = self.shell.recv(1 << 16)
            if not some:
                raise GuestError(f"the guest ended: {self._tail('console')} {self._tail('qemu.log')}")
            self.read += some
        text, self.read = self.read[:done.start()], self.read[done.end():]
        return text.decode("utf-8", errors="replace").replace("\r\n", "\n").strip(), int(done[1])

    def sh(self, script, patience=60, check=True):
        """Runs a script in the guest and returns what it printed."""
        self.shell.sendall(base64.b64encode(script.encode()) + b"\n")
        text, code = self._answer(patience, f"to run {script[:60]}")
        if check and code:
            raise GuestError(f"in the guest: {script[:80]}: exit {code}: {text[-600:]}")
        return text

    def qmp(self, command, **arguments):
        """Asks QEMU itself, by its machine protocol: `qmp("qom-set", path="disk0", ...)`."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(os.path.join(self.folder, "qmp.socket"))
            lines = client.makefile("rw", encoding="utf-8")
            lines.readline()
            for word, more in (("qmp_capabilities", {}), (command, arguments)):
                lines.write(json.dumps({"execute": word, "arguments": more}) + "\n")
                lines.flush()
                answer = self._answer_of(lines)
        return answer

    @staticmethod
    def _answer_of(lines):
        for line in lines:
            answer = json.loads(line)
            if "error" in answer:
                raise GuestError(f"QEMU: {answer['error'].get('desc')}")
            if "return" in answer:
                return answer["return"]
        raise GuestError("QEMU closed its protocol's socket")

    def end(self):
        """Turns it off, the hard way: nothing in it is worth keeping."""
        self.shell.close()
        self.process.kill()
        self.process.wait()
