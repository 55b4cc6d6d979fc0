//! The NBD protocol, without sockets.
