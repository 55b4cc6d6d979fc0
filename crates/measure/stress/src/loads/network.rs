//! Traffic over the loopback interface: the kernel's whole network path without a wire.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;

use super::affinity::{WorkerPlace, places};
use super::{LoadMost, LoadOptions, StressLoad, WorkStep};
use crate::class::StressClass;
use crate::{StressError, io};

/// Bytes of a send over a stream.
const SENT: usize = 64 << 10;
/// Name of the receiving threads.
const RECEIVER: &str = "stress-receiver";
/// Datagrams per step.
const DATAGRAMS: usize = 16;

fn failed<E: Into<std::io::Error>>(error: E) -> StressError {
    io(Path::new("loopback"), "the connection failed")(error)
}

/// Makes the load of streams: one per processor, whose other end reads until the stream ends. Both ends are pinned to
/// that processor: on two, each would wait for the other, and the processors would idle meanwhile.
pub(super) fn streams(_: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    let workers = places(options.processors.max(1)).map(stream).collect::<Result<_, _>>()?;
    Ok(StressLoad::new(workers, LoadMost::Measured))
}

fn stream(place: WorkerPlace) -> Result<WorkStep, StressError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let mut sender = TcpStream::connect(listener.local_addr().map_err(failed)?).map_err(failed)?;
    let (mut receiver, _) = listener.accept().map_err(failed)?;
    let receiving = move || {
        let mut buffer = vec![0_u8; SENT];
        if place.stay().is_ok() {
            while receiver.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
        }
    };
    std::thread::Builder::new().name(RECEIVER.into()).spawn(receiving).map_err(crate::no_thread)?;
    let buffer = vec![0_u8; SENT];
    Ok(place.keep(Box::new(move || {
        sender.write_all(&buffer).map_err(failed)?;
        Ok(SENT as f64)
    })))
}

/// Makes the load of interrupts: datagrams of one byte to a socket that is never read. The work is the kernel's, in its
/// soft interrupts, which process each on arrival and drop those that find no room.
pub(super) fn datagrams(_: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    let workers = places(options.processors.max(1)).map(flood).collect::<Result<_, _>>()?;
    Ok(StressLoad::new(workers, LoadMost::Measured))
}

fn flood(place: WorkerPlace) -> Result<WorkStep, StressError> {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    sender.connect(receiver.local_addr().map_err(failed)?).map_err(failed)?;
    Ok(place.keep(Box::new(move || {
        let _ = &receiver;
        for _ in 0..DATAGRAMS {
            sender.send(&[1]).map_err(failed)?;
        }
        Ok(DATAGRAMS as f64)
    })))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread;

    use super::super::affinity::tests::allowed_here;
    use super::*;

    /// Returns the processors allowed for the receiving threads, as the kernel writes them.
    fn of_receivers() -> Vec<String> {
        let threads = fs::read_dir("/proc/self/task").unwrap().flatten().map(|entry| entry.path());
        let readers =
            threads.filter(|thread| fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim() == RECEIVER));
        let allowed = |thread: std::path::PathBuf| {
            let status = fs::read_to_string(thread.join("status")).ok()?;
            Some(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().to_owned())
        };
        readers.filter_map(allowed).collect()
    }

    #[test]
    fn both_ends_of_a_stream_stay_on_one_processor() {
        let processors = allowed_here();
        for (place, processor) in places(processors.len()).zip(&processors) {
            let mut step = stream(place).unwrap();
            let sender = thread::scope(|scope| scope.spawn(|| (step().unwrap(), allowed_here())).join().unwrap());
            assert_eq!(sender, (SENT as f64, vec![*processor]));
            // the other thread may not have started yet; other tests have streams too
            let started = std::time::Instant::now();
            while !of_receivers().contains(&processor.to_string()) {
                assert!(started.elapsed().as_secs() < 60, "{:?}", of_receivers());
                crate::run::rest(std::time::Duration::from_millis(5));
            }
        }
    }
}
