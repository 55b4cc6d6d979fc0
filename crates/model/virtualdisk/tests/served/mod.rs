//! A real server in a thread, for tests and benchmarks.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use diskwright_simulator::ArrayLevel;
use diskwright_simulator::SimulationReport;
use diskwright_simulator::device::{DeviceModel, PlainSpec};
use diskwright_simulator::service_time::ServiceTimeDistribution;
use diskwright_simulator::system::{ArraySpec, DriveGroupSpec, System};
use diskwright_virtualdisk::content::ContentBacking;
use diskwright_virtualdisk::nbd::client::{ClientOptions, NbdClient};
use diskwright_virtualdisk::server::{DiskCommand, DiskServer, ListenAddress, ServeError, ServeOptions, send_command};
use tempfile::TempDir;

/// Longest wait for a reply.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// A server that stops when it is dropped.
pub struct Running {
    pub path: PathBuf,
    pub control: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
    pub folder: TempDir,
}

/// Returns the options of most tests: content in memory, virtual time at the speed of the wall
/// clock.
pub fn options(place: ListenAddress) -> ServeOptions {
    ServeOptions {
        address: place,
        default_export_bytes: None,
        backing: ContentBacking::Memory { max_bytes: None },
        speed: 1.0,
        never_sleep: false,
        sample_interval: Duration::from_millis(200),
        workloads: false,
    }
}

/// Serves `system` on a Unix socket. `prepare` runs in the server's thread before anything else.
pub fn serve(system: System, change: impl FnOnce(&mut ServeOptions)) -> Running {
    serve_as(system, change, || {}, |_| {})
}

/// The same, with a function that runs first in the server's thread, and one that runs with each
/// sample.
pub fn serve_as(
    system: System,
    change: impl FnOnce(&mut ServeOptions),
    prepare: impl FnOnce() + Send + 'static,
    mut tick: impl FnMut(&SimulationReport) + Send + 'static,
) -> Running {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk.sock");
    let mut options = options(ListenAddress::Unix(path.clone()));
    change(&mut options);
    let stop = Arc::new(AtomicBool::new(false));
    let (tell, control_receiver) = channel();
    let until = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        prepare();
        let mut server = DiskServer::new(system, &options)?;
        let control = server.control_address().path().map(PathBuf::from);
        tell.send(control).expect("somebody waits");
        server.run(&until, None, &mut |report| {
            tick(report);
            Ok(())
        })
    });
    let control = match control_receiver.recv() {
        Ok(control) => control.expect("a file"),
        Err(_) => panic!("{:?}", thread.join().expect("no panic").err()),
    };
    Running { path, control, stop, thread: Some(thread), folder }
}

impl Running {
    pub fn stream(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.path).expect("served");
        stream.set_read_timeout(Some(REPLY_TIMEOUT)).expect("a timeout");
        stream.set_write_timeout(Some(REPLY_TIMEOUT)).expect("a timeout");
        stream
    }

    pub fn connect(&self) -> NbdClient<UnixStream> {
        self.open("", ClientOptions::default())
    }

    pub fn open(&self, export: &str, wishes: ClientOptions) -> NbdClient<UnixStream> {
        NbdClient::start(self.stream(), export, wishes).expect("a handshake")
    }

    pub fn send_command(&self, order: &DiskCommand) -> Result<serde_json::Value, ServeError> {
        send_command(&self.control, order)
    }

    /// Stops the server and returns its result.
    pub fn end(mut self) -> Result<(), ServeError> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map_or(Ok(()), |thread| thread.join().expect("the server does not panic"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            // one panic is enough
            if !std::thread::panicking() {
                ended.expect("the server does not panic").expect("it serves to its end");
            }
        }
    }
}

/// Returns drives of `blocks` that take `service` ns for each of up to `servers` concurrent
/// requests.
pub fn plain_drives(count: u32, blocks: u64, servers: u32, service: u64) -> System {
    let spec = PlainSpec {
        name: "plain".into(),
        blocks,
        servers,
        service: ServiceTimeDistribution::Constant(service),
        bytes_per_s: f64::INFINITY,
    };
    let mut system = System::new("plain");
    system.drives.push(DriveGroupSpec::new("disk", count, DeviceModel::Plain(spec.into())));
    system
}

/// Puts all drives of a system into an array `data`.
pub fn array(mut system: System, level: ArrayLevel) -> System {
    let members = (0..system.drive_count()).collect();
    system.arrays.push(ArraySpec::new("data", level, members));
    system
}
