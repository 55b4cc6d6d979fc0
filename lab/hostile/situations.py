"""Ways in which a device or file is in use: each makes one on real devices, and
tells the names under which it must not be written to, and where its bytes lie."""

import os
import stat
import subprocess
import sys
from dataclasses import dataclass

from machine import LabError, Unavailable, wait_for
from undo import uninterrupted

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 16
PART_AT = 1 << 20


@dataclass
class Used:
    """What is in use: names of devices and of files, and the files that hold their bytes.
    Devices may be words for `losetup`: they are made only when devices are tried,
    because a loop device over a file is a use of that file."""
    devices: list
    files: list
    data: list


def hold(bench, how, path):
    """A process that holds a file or device."""
    process = bench.start([sys.executable, os.path.join(HERE, "hold.py"), how, path])
    wait_for(lambda: "held" in open(process.log, encoding="ascii").read(), f"{path} to be held", process=process)


def mounted(bench, name="disk", folder=None):
    """An image with a filesystem, and a loop device over it that is mounted. Read-only,
    so that nothing but a writer that should not be changes a byte."""
    image = bench.ext4(bench.image(name, MIB, folder))
    device = bench.loop(image)
    bench.mount(device, f"{name}-point", "-o", "ro,noload")
    return image, device


def plainly_mounted(bench):
    image, device = mounted(bench)
    return Used([device], [image], [image])


def second_loop(bench):
    image, _ = mounted(bench)
    return Used([(image,)], [image], [image])


def second_loop_without_cache(bench):
    image, _ = mounted(bench)
    return Used([(image, "--direct-io=on")], [image], [image])


def by_a_link(bench):
    image, _ = mounted(bench)
    link = bench.path("link")
    os.symlink(image, link)
    return Used([(link,)], [link], [image])


def offset_over_a_partition(bench):
    """A partition that is mounted; a second device begins where it does, a third in the middle of it."""
    image = bench.image("disk", MIB)
    part = bench.ext4(bench.image("part", MIB - 2))
    with open(image, "r+b") as disk, open(part, "rb") as source:
        entry = bytes([0, 0, 0, 0, 0x83, 0, 0, 0])
        entry += (PART_AT // 512).to_bytes(4, "little") + ((MIB - 2) * 2048).to_bytes(4, "little")
        disk.seek(446)
        disk.write(entry + bytes(48) + b"\x55\xaa")
        disk.seek(PART_AT)
        disk.write(source.read())
    device = bench.loop(image)
    with uninterrupted():
        bench.output(["partx", "-a", device])
        bench.undo.push("run", "partx", "-d", device)
    bench.mount(device + "p1", "point", "-o", "ro,noload")
    return Used([(image, "--offset", str(PART_AT)), (image, "--offset", str(4 << 20))],
                [image], [image])


def loop_over_a_mounted_loop(bench):
    image, device = mounted(bench)
    return Used([(device,)], [image], [image])


def loop_below_a_mounted_loop(bench):
    image = bench.ext4(bench.image("disk", MIB))
    below = bench.loop(image)
    bench.mount(bench.loop(below), "point", "-o", "ro,noload")
    return Used([below, (image,)], [image], [image])


def other_hard_link(bench):
    """The name that the loop driver knows is gone; another one leads to the same bytes."""
    image = bench.ext4(bench.image("disk", MIB))
    other = bench.path("other")
    os.link(image, other)
    device = bench.loop(image)
    os.unlink(image)
    bench.mount(device, "point", "-o", "ro,noload")
    return Used([(other,)], [other], [other])


def mounted_over(bench):
    """Another filesystem lies over the folder of the backing file, which a bind mount still shows."""
    inner, aside = bench.path("inner"), bench.path("aside")
    os.makedirs(inner)
    os.makedirs(aside)
    mounted(bench, folder=inner)
    with uninterrupted():
        bench.output(["mount", "--bind", inner, aside])
        # where mounts are shared, what covers the folder would cover its bind mount as well
        bench.output(["mount", "--make-private", aside])
        bench.undo.push("run", "umount", aside)
    bench.mount("tmpfs", "inner", "-t", "tmpfs", "-o", "size=1m")
    image = os.path.join(aside, "disk")
    return Used([(image,)], [image], [image])


def overlay(bench):
    """The mounted device's file is known by its path in the overlay; here it is written to beside it."""
    upper, merged = overlaid(bench)
    image = bench.ext4(bench.image("disk", MIB, upper))
    device = bench.loop(os.path.join(merged, "disk"))
    bench.mount(device, "point", "-o", "ro,noload")
    return Used([(image,), (os.path.join(merged, "disk"),)],
                [image, os.path.join(merged, "disk")], [image])


def mounted_over_beside_an_overlay(bench):
    """A loop device over a file of an overlay, of the covered file's size: nothing tells those two apart."""
    _, merged = overlaid(bench)
    bench.loop(bench.image("decoy", MIB, merged))
    return mounted_over(bench)


def overlaid(bench):
    """An overlay filesystem: its upper layer, and where it is mounted."""
    memory = bench.mount("tmpfs", "layers", "-t", "tmpfs", "-o", "size=64m")
    upper, lower, work, merged = (os.path.join(memory, name) for name in ("upper", "lower", "work", "merged"))
    for folder in (upper, lower, work, merged):
        os.makedirs(folder)
    with uninterrupted():
        bench.output(["mount", "-t", "overlay", "overlay", "-o",
                      f"upperdir={upper},lowerdir={lower},workdir={work}", merged])
        bench.undo.push("run", "umount", merged)
    return upper, merged


def file_open_for_writing(bench):
    """A virtual machine's disk, a database's file: no mount, but a process that writes to it."""
    image = bench.image("disk", MIB)
    hold(bench, "open", image)
    return Used([(image,)], [image], [image])


def node_elsewhere_open(bench):
    """A process has the device open by a node that is not below /dev."""
    image = bench.image("disk", MIB)
    device = bench.loop(image)
    node = node_of(bench, device)
    hold(bench, "open", node)
    return Used([device], [], [image])


def node_elsewhere_mounted(bench):
    """The device is mounted, and named by a node that is not below /dev."""
    image, device = mounted(bench)
    return Used([node_of(bench, device)], [], [image])


def node_of(bench, device):
    """Another node of the same device, on a filesystem that allows nodes, and not below /dev."""
    folder = bench.mount("tmpfs", bench.disk_folder(), "-t", "tmpfs", "-o", "size=1m,dev")
    node = os.path.join(folder, "disk")
    os.mknod(node, stat.S_IFBLK | 0o600, os.stat(device).st_rdev)
    return node


def btrfs(bench, count=1, mib=128):
    """A btrfs over loop devices, mounted; its images and devices."""
    with open("/proc/filesystems", encoding="ascii") as file:
        if "btrfs" not in file.read():
            raise Unavailable("the kernel has no btrfs")
    images = [bench.write(f"member{number}", b"") for number in range(count)]
    for image in images:
        os.truncate(image, mib << 20)
    devices = [bench.loop(image) for image in images]
    level = "raid0" if count > 1 else "single"
    bench.output(["mkfs.btrfs", "-q", "-f", "-d", level, "-m", "raid1" if count > 1 else "dup", *devices])
    return images, devices


def mapped_on_btrfs(bench):
    """A file in whose map stands a device number that `stat` does not tell."""
    _, devices = btrfs(bench)
    point = bench.mount(devices[0], "btrfs", "-o", "noatime")
    image = bench.image("disk", MIB, point)
    hold(bench, "map", image)
    return Used([(image,)], [image], [image])


def open_on_btrfs(bench):
    _, devices = btrfs(bench)
    point = bench.mount(devices[0], "btrfs", "-o", "noatime")
    image = bench.image("disk", MIB, point)
    hold(bench, "open", image)
    return Used([(image,)], [image], [image])


def btrfs_member(bench):
    """The second of two members: only the first is in the table of mounts."""
    images, devices = btrfs(bench, 2)
    bench.mount(devices[0], "btrfs", "-o", "ro")
    return Used([devices[1], (images[1],)], [images[1]], images)


def swap_file(bench):
    """A file that is swapped on, with the lowest priority."""
    _, _, point = bench.filesystem("holder", 32)
    image = bench.image("swap", 8, point)
    os.chmod(image, 0o600)
    swap_on(bench, image)
    return Used([(image,)], [image], [image])


def swap_device(bench):
    """A device that is swapped on, under its second name."""
    image = bench.image("swap", 8)
    swap_on(bench, bench.loop(image))
    return Used([(image,)], [image], [image])


def swap_on(bench, where):
    bench.output(["mkswap", where])
    done = subprocess.run(["swapon", "-p", "0", where], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"swapon {where}: {done.stderr.strip()}")
    bench.undo.push("run", "swapoff", where)
