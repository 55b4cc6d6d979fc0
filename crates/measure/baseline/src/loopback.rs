//! TCP over the loopback device: the cost of the kernel's network code without a network.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread::JoinHandle;

use crate::machine::WorkingSizes;
use crate::work_kernel::{ThreadShare, WorkKernel};
use crate::{BaselineError, io_error};

/// Size of a write, bytes.
const PIECE_BYTES: usize = 128 << 10;

/// A connection whose other end is served by a thread of this program.
struct Peer {
    stream: TcpStream,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Connects to a new thread that runs `serve`.
fn connect_peer(serve: fn(TcpStream) -> std::io::Result<()>) -> Result<Peer, BaselineError> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io_error("listening on the loopback interface"))?;
    let address = listener.local_addr().map_err(io_error("listening on the loopback interface"))?;
    let stream = TcpStream::connect(address).map_err(io_error("connecting over the loopback interface"))?;
    let (peer_stream, peer_address) = listener.accept().map_err(io_error("connecting over the loopback interface"))?;
    if stream.local_addr().ok() != Some(peer_address) {
        return Err(BaselineError::Unsupported("another program connected to the test's port".into()));
    }
    stream.set_nodelay(true).map_err(io_error("setting up a connection"))?;
    peer_stream.set_nodelay(true).map_err(io_error("setting up a connection"))?;
    let body = move || {
        // the thread ends when the connection is closed
        let _ = serve(peer_stream);
    };
    let thread = std::thread::Builder::new().name("peer".into()).spawn(body).map_err(io_error("starting a thread"))?;
    Ok(Peer { stream, thread: Some(thread) })
}

/// Makes the throughput kernel: it sends pieces of 128 KiB; each round of sixteen ends when the
/// other end has acknowledged it with a byte.
pub fn make_bulk_kernel(_: &WorkingSizes, _: ThreadShare) -> Result<WorkKernel, BaselineError> {
    const PIECES_PER_ROUND: usize = 16;
    fn acknowledge_pieces(mut stream: TcpStream) -> std::io::Result<()> {
        let mut buffer = vec![0u8; PIECE_BYTES];
        loop {
            for _ in 0..PIECES_PER_ROUND {
                stream.read_exact(&mut buffer)?;
            }
            stream.write_all(&buffer[..1])?;
        }
    }
    let mut peer = connect_peer(acknowledge_pieces)?;
    let piece = vec![5u8; PIECE_BYTES];
    let work = move |rounds: u64| {
        let mut answer = [0u8];
        for _ in 0..rounds {
            for _ in 0..PIECES_PER_ROUND {
                peer.stream.write_all(&piece).map_err(io_error("sending over the loopback interface"))?;
            }
            peer.stream.read_exact(&mut answer).map_err(io_error("receiving over the loopback interface"))?;
        }
        Ok(u64::from(answer[0]))
    };
    Ok(WorkKernel {
        run_rounds: Box::new(work),
        units_per_round: (PIECES_PER_ROUND * PIECE_BYTES) as f64,
        is_repeatable: true,
    })
}

/// Makes the round-trip kernel: it sends a byte and waits for it to come back.
pub fn make_round_trip_kernel(_: &WorkingSizes, _: ThreadShare) -> Result<WorkKernel, BaselineError> {
    fn echo_bytes(mut stream: TcpStream) -> std::io::Result<()> {
        let mut byte = [0u8];
        loop {
            stream.read_exact(&mut byte)?;
            stream.write_all(&byte)?;
        }
    }
    let mut peer = connect_peer(echo_bytes)?;
    let work = move |rounds: u64| {
        let mut byte = [9u8];
        for _ in 0..rounds {
            peer.stream.write_all(&byte).map_err(io_error("sending over the loopback interface"))?;
            peer.stream.read_exact(&mut byte).map_err(io_error("receiving over the loopback interface"))?;
        }
        Ok(u64::from(byte[0]))
    };
    Ok(WorkKernel { run_rounds: Box::new(work), units_per_round: 1.0, is_repeatable: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_arrives() {
        let share = ThreadShare { index: 0, threads: 1 };
        let sizes = WorkingSizes::default();
        assert_eq!((make_bulk_kernel(&sizes, share).expect("connected").run_rounds)(2).expect("sent"), 5);
        assert_eq!((make_round_trip_kernel(&sizes, share).expect("connected").run_rounds)(50).expect("sent"), 9);
    }
}
