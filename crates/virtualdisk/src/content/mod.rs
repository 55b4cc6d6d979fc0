//! What lies on the disks.
