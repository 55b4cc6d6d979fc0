//! Makes an export a block device of this machine.
