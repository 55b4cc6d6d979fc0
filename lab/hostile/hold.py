"""Holds a file or device until it is ended: `hold.py open|read|map PATH`. `map` keeps no descriptor."""

import ctypes
import mmap
import os
import sys
import time

how, path = sys.argv[1:]
file = os.open(path, os.O_RDONLY if how == "read" else os.O_RDWR)
if how == "map":
    # Python's own mmap keeps a descriptor besides
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    words = (None, 4096, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, file, ctypes.c_long(0))
    assert libc.mmap(*words) != ctypes.c_void_p(-1).value, ctypes.get_errno()
    os.close(file)
print("held", flush=True)
time.sleep(300)
