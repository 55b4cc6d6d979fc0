//! Traffic over the loopback interface: the kernel's whole path without a wire.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;

use super::{LoadMost, LoadOptions, StressLoad, WorkStep};
use crate::class::StressClass;
use crate::{StressError, io};

/// Bytes of a send over a stream.
const SENT: usize = 64 << 10;
/// Datagrams of a step.
const DATAGRAMS: usize = 16;

fn failed<E: Into<std::io::Error>>(error: E) -> StressError {
    io(Path::new("loopback"), "the connection failed")(error)
}

/// One stream for each processor; its other end reads what comes until the stream ends.
pub(super) fn streams(_: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    let workers = (0..options.processors.max(1)).map(|_| stream()).collect::<Result<_, _>>()?;
    Ok(StressLoad { workers, most: LoadMost::Measured })
}

fn stream() -> Result<WorkStep, StressError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let mut sender = TcpStream::connect(listener.local_addr().map_err(failed)?).map_err(failed)?;
    let (mut receiver, _) = listener.accept().map_err(failed)?;
    std::thread::spawn(move || {
        let mut buffer = vec![0_u8; SENT];
        while receiver.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
    });
    let buffer = vec![0_u8; SENT];
    Ok(Box::new(move || {
        sender.write_all(&buffer).map_err(failed)?;
        Ok(SENT as f64)
    }))
}

/// Datagrams of one byte to a socket that nobody reads: the work is the kernel's, in its soft interrupts, which take
/// each apart on arrival and drop what finds no room.
pub(super) fn datagrams(_: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    let workers = (0..options.processors.max(1)).map(|_| flood()).collect::<Result<_, _>>()?;
    Ok(StressLoad { workers, most: LoadMost::Measured })
}

fn flood() -> Result<WorkStep, StressError> {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    sender.connect(receiver.local_addr().map_err(failed)?).map_err(failed)?;
    Ok(Box::new(move || {
        let _ = &receiver;
        for _ in 0..DATAGRAMS {
            sender.send(&[1]).map_err(failed)?;
        }
        Ok(DATAGRAMS as f64)
    }))
}
