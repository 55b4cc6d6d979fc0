//! Exports behind a socket, in the time of the described system.
