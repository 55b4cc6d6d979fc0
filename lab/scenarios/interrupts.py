"""Processors full of the kernel's interrupt work: floods of tiny datagrams on loopback."""

import os

TRUTH = "interrupts"
MAKES = "one flood of one-byte datagrams over loopback for each processor"
NEEDS = []


def start(machine):
    for _ in range(os.cpu_count()):
        machine.own("flood")
