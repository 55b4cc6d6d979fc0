"""Everybody waits for a server elsewhere that is slow; nothing of this machine is short."""

TRUTH = "none"
MAKES = "16 threads that ask a server over TCP, which takes 200 ms for each answer"
NEEDS = []
WAITS = "network"


def start(machine):
    machine.own("ask", "--threads", 16)
