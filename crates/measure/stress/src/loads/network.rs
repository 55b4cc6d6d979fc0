//! Traffic over the loopback interface: the kernel's whole network path without a wire.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;

use super::affinity::{WorkerCpu, spread_workers};
use super::{FullLevel, LoadOptions, StressLoad, WorkStep};
use crate::class::StressClass;
use crate::{StressError, io_error};

/// Bytes that a stream sends at once.
const SEND_BYTES: usize = 64 << 10;
/// Name of the receiving threads.
const RECEIVER_THREAD_NAME: &str = "stress-receiver";
/// Datagrams per step.
const DATAGRAMS_PER_STEP: usize = 16;

fn connection_error<E: Into<std::io::Error>>(error: E) -> StressError {
    io_error(Path::new("loopback"), "the connection failed")(error)
}

/// Makes the load of streams: one per processor, whose other end reads until the stream ends. Both ends are pinned to
/// that processor: on two processors, each end would wait for the other, and both processors would idle meanwhile.
pub(super) fn stream_load(_: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    let workers = spread_workers(options.processors.max(1)).map(stream_step).collect::<Result<_, _>>()?;
    Ok(StressLoad::new(workers, FullLevel::Measured))
}

fn stream_step(cpu: WorkerCpu) -> Result<WorkStep, StressError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(connection_error)?;
    let mut sender = TcpStream::connect(listener.local_addr().map_err(connection_error)?).map_err(connection_error)?;
    let (mut receiver, _) = listener.accept().map_err(connection_error)?;
    let receive = move || {
        let mut buffer = vec![0_u8; SEND_BYTES];
        if cpu.pin_current_thread().is_ok() {
            while receiver.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
        }
    };
    std::thread::Builder::new().name(RECEIVER_THREAD_NAME.into()).spawn(receive).map_err(crate::thread_error)?;
    let buffer = vec![0_u8; SEND_BYTES];
    Ok(cpu.pin_steps(Box::new(move || {
        sender.write_all(&buffer).map_err(connection_error)?;
        Ok(SEND_BYTES as f64)
    })))
}

/// Makes the load of interrupts: datagrams of one byte to a socket that is never read. The kernel does the work, in its
/// soft interrupts: it processes each datagram on arrival, and drops those for which the socket's buffer has no space.
pub(super) fn datagram_load(_: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    let workers = spread_workers(options.processors.max(1)).map(flood_step).collect::<Result<_, _>>()?;
    Ok(StressLoad::new(workers, FullLevel::Measured))
}

fn flood_step(cpu: WorkerCpu) -> Result<WorkStep, StressError> {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(connection_error)?;
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(connection_error)?;
    sender.connect(receiver.local_addr().map_err(connection_error)?).map_err(connection_error)?;
    Ok(cpu.pin_steps(Box::new(move || {
        // the socket stays open as long as the step
        let _ = &receiver;
        for _ in 0..DATAGRAMS_PER_STEP {
            sender.send(&[1]).map_err(connection_error)?;
        }
        Ok(DATAGRAMS_PER_STEP as f64)
    })))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread;

    use super::super::affinity::tests::allowed_here;
    use super::*;

    /// Returns the processors allowed for the receiving threads, as the kernel writes them.
    fn receiver_cpus() -> Vec<String> {
        let threads = fs::read_dir("/proc/self/task").unwrap().flatten().map(|entry| entry.path());
        let readers = threads.filter(|thread| {
            fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim() == RECEIVER_THREAD_NAME)
        });
        let allowed = |thread: std::path::PathBuf| {
            let status = fs::read_to_string(thread.join("status")).ok()?;
            Some(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().to_owned())
        };
        readers.filter_map(allowed).collect()
    }

    #[test]
    fn both_ends_of_a_stream_stay_on_one_processor() {
        let processors = allowed_here();
        for (place, processor) in spread_workers(processors.len()).zip(&processors) {
            let mut step = stream_step(place).unwrap();
            let sender = thread::scope(|scope| scope.spawn(|| (step().unwrap(), allowed_here())).join().unwrap());
            assert_eq!(sender, (SEND_BYTES as f64, vec![*processor]));
            // the other thread may not have started yet; other tests have streams too
            let started = std::time::Instant::now();
            while !receiver_cpus().contains(&processor.to_string()) {
                assert!(started.elapsed().as_secs() < 60, "{:?}", receiver_cpus());
                crate::run::sleep_for(std::time::Duration::from_millis(5));
            }
        }
    }
}
