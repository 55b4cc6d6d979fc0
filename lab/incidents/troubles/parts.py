"""Parts that several incidents are made of."""

import os

# While its files are made the disk is quick; then a request takes 5 ms and it moves 4 MB/s.
QUICK = {"disk.plain.servers": 1, "disk.plain.service": "{ constant_us = 200 }", "disk.plain.mb_s": 100}
TIMES_SLOWER = 25
FILES, FILE_KIB = 600, 1024


def device_name(device):
    return os.path.basename(device)


def start_readers(ground, disk, jobs=8):
    """Random readers of a disk, one request each."""
    return ground.fio(disk, name="reindex", rw="randread", bs="4k", numjobs=jobs)


def documents_disk(ground):
    """A slow disk whose filesystem has a folder of documents, two and a half minutes to read; its scheduler honors
    priorities. Returns the device, the filesystem's folder, and what makes it slow."""
    system = ground.system("many-at-once", QUICK)
    disk = system.device()
    ground.schedule(disk, "bfq")
    folder = ground.mount_cold(disk, lambda folder: ground.make_files(f"{folder}/documents", FILES, FILE_KIB))
    return disk, folder, lambda: system.order("slow", member="disk", factor=TIMES_SLOWER)
