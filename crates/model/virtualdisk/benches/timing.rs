//! Measures how exactly replies arrive at the time that the model says, as a client at the socket
//! sees it.
//!
//!     cargo bench -p diskwright-virtualdisk --bench timing [-- --seconds 10]
//!     chrt -f 50 cargo bench ...          before all ordinary processes
//!     cargo bench ... -- --awake          a server that never sleeps either
//!
//! The response times of the models are known: devices that always take the same time and serve any
//! number of requests at once. A model that costs nothing shows the round-trip overhead,
//! including the client's own wake-up; a client that never sleeps (`awake`) shows how much of it is
//! the client's. The first row shows the limit of the machine itself: how late a thread on each
//! processor wakes for the same deadlines, with no server and no socket; the server sleeps until
//! shortly before a deadline, so that this row is also the server's limit. Reads are of 4 KB; the server has
//! processor 0 for itself, the client 1, if there are two.
//!
//! With `--tiny`, and when `cargo test` runs it, it does only a little, to check that it works; the
//! numbers then mean nothing.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]
#![allow(clippy::disallowed_methods, reason = "nothing is reported meanwhile")]

#[path = "../tests/served/mod.rs"]
mod served;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use diskwright_simulator::DeviceModel;
use diskwright_simulator::SimulationReport;
use diskwright_simulator::diskspecs;
use diskwright_simulator::drive::Model;
use diskwright_simulator::system::{DriveGroupSpec, System};
use diskwright_virtualdisk::nbd::client::ClientOptions;
use diskwright_virtualdisk::nbd::request::NbdRequest;
use diskwright_virtualdisk::nbd::wire::{CommandFlags, NbdCommand};
use diskwright_virtualdisk::server::{DiskCommand, ServeOptions};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CpuSet, sched_setaffinity};
use served::{Running, plain_drives, serve_as};

const NS_PER_US: f64 = 1e3;
const REQUEST_BYTES: usize = 4096;
/// Size of a reply: its header and the data.
const REPLY_BYTES: usize = 16 + REQUEST_BYTES;
const DISK_BYTES: u64 = 1 << 30;

/// The kernel throttles a real-time thread that never sleeps, so it works in stints with pauses.
const STINT_DURATION: Duration = Duration::from_millis(700);
const PAUSE_DURATION: Duration = Duration::from_millis(300);

/// Arrival of requests.
#[derive(Clone, Copy)]
enum Pace {
    /// Requests per second, regardless of replies.
    Open(f64),
    /// Requests that are always in flight.
    Closed(usize),
}

/// Waiting method of a client.
#[derive(Clone, Copy, PartialEq)]
enum WaitMethod {
    Asleep,
    Awake,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let tiny = has("--tiny") || !has("--bench");
    let seconds = arguments.iter().skip_while(|a| *a != "--seconds").nth(1).and_then(|text| text.parse().ok());
    let duration = Duration::from_secs_f64(if tiny { 0.02 } else { seconds.unwrap_or(5.0) });
    println!("# us; error: what the client saw less what the model says; {duration:?} each");
    println!(
        "# {:44} {:6} {:>9} {:>9}  {:>8} {:>8} {:>8} {:>8} {:>8}",
        "", "client", "requests", "model", "mean", "p50", "p99", "p99.9", "max"
    );
    pin_to_processor(1);
    // as the server does for itself, so that neither waits for other programs
    let _ = rustix::process::setpriority_process(None, -15);
    for wait_method in [WaitMethod::Asleep, WaitMethod::Awake] {
        for processor in [0, 1] {
            pin_to_processor(processor);
            print_line(
                &format!("the machine's own, processor {processor}"),
                wait_method,
                0.0,
                measure_own_lateness(wait_method, duration),
            );
        }
        measure_fixed_device(0, wait_method, duration, &[Pace::Open(1000.0), Pace::Closed(1)]);
        measure_fixed_device(500, wait_method, duration, &[Pace::Open(1000.0), Pace::Closed(1)]);
        measure_fixed_device(
            8000,
            wait_method,
            duration,
            &[Pace::Open(1000.0), Pace::Closed(1), Pace::Closed(8), Pace::Closed(64)],
        );
        measure_fixed_device(64_000, wait_method, duration, &[Pace::Open(1000.0), Pace::Closed(64)]);
        measure_real_drive(wait_method, duration * 2);
    }
}

/// Pins this thread to a processor, if there is one with that number.
fn pin_to_processor(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    // with fewer processors the thread is not pinned
    let _ = sched_setaffinity(None, &set);
}

/// Measures how late, us, this thread wakes for 1,000 deadlines per second while it does nothing
/// else.
fn measure_own_lateness(wait_method: WaitMethod, duration: Duration) -> Vec<f64> {
    let mut errors = Vec::new();
    run_in_stints(wait_method, duration, |stint| {
        let end = Instant::now() + stint;
        let mut next = Instant::now();
        while next < end {
            next += Duration::from_secs_f64(random_factor(errors.len()) / 1000.0);
            if wait_method == WaitMethod::Asleep {
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
            while Instant::now() < next {}
            errors.push(next.elapsed().as_nanos() as f64 / NS_PER_US);
        }
    });
    errors
}

/// Returns a factor of about 1, so that deadlines are not equidistant.
fn random_factor(number: usize) -> f64 {
    0.5 + number.wrapping_mul(0x9E37_79B9) as u32 as f64 / f64::from(u32::MAX)
}

/// Runs work in stints, with pauses where the kernel would throttle it.
fn run_in_stints(wait_method: WaitMethod, duration: Duration, mut work: impl FnMut(Duration)) {
    let begin = Instant::now();
    while begin.elapsed() < duration {
        work(duration.min(STINT_DURATION));
        if wait_method == WaitMethod::Awake && duration > STINT_DURATION {
            std::thread::sleep(PAUSE_DURATION);
        }
    }
}

/// Applies `--awake` to the server's options.
fn apply_arguments(options: &mut ServeOptions) {
    options.never_sleep = std::env::args().any(|a| a == "--awake");
}

/// Measures devices that always take `service` us.
fn measure_fixed_device(service: u64, wait_method: WaitMethod, duration: Duration, paces: &[Pace]) {
    let running = serve_as(
        plain_drives(1, DISK_BYTES / 512, 256, service * 1000),
        apply_arguments,
        || pin_to_processor(0),
        |_| {},
    );
    for pace in paces {
        let name = match pace {
            Pace::Open(rate) => format!("{service} us, open, {rate} a second"),
            Pace::Closed(depth) => format!("{service} us, {depth} outstanding"),
        };
        let responses = measure_responses(&running, *pace, wait_method, duration);
        let errors = responses.iter().map(|ns| *ns as f64 / NS_PER_US - service as f64).collect();
        print_line(&name, wait_method, service as f64, errors);
    }
    print_server_lateness(&running);
}

/// Measures a real drive: means are compared, as the client does not learn the model's time of each
/// request.
fn measure_real_drive(wait_method: WaitMethod, duration: Duration) {
    let name = concat!(env!("CARGO_MANIFEST_DIR"), "/../simulator/tests/drives/disk7200.diskspecs");
    let load = |path: &str| std::fs::read_to_string(path).map_err(|e| e.to_string());
    let text = load(name).unwrap_or_else(|e| panic!("{name}: {e}"));
    let drive = diskspecs::read_drive(name, &text, &load).unwrap_or_else(|e| panic!("{e}"));
    let model = Arc::new(Model::new(&drive.spec).unwrap_or_else(|e| panic!("{name}: {e}")));
    for depth in [1, 8] {
        let mut system = System::new("a drive");
        system.drives.push(DriveGroupSpec::new("disk", 1, DeviceModel::Mechanical(Arc::clone(&model))));
        let sums = Arc::new(Mutex::new((0.0, 0_u64)));
        let into = Arc::clone(&sums);
        let tick = move |report: &SimulationReport| {
            let mut sums = into.lock().expect("nobody panics");
            for component in &report.components {
                sums.0 += component.counts.read_ns as f64;
                sums.1 += component.counts.reads;
            }
        };
        let running = serve_as(system, apply_arguments, || pin_to_processor(0), tick);
        let responses = measure_responses(&running, Pace::Closed(depth), wait_method, duration);
        running.end().expect("served");
        let (sum, requests) = *sums.lock().expect("nobody panics");
        let model = sum / requests.max(1) as f64 / NS_PER_US;
        let seen = responses.iter().map(|ns| *ns as f64 / NS_PER_US).sum::<f64>() / responses.len().max(1) as f64;
        println!(
            "{:46} {} {:9} {model:9.1}  {:8.1}",
            format!("7200 rpm, {depth} outstanding"),
            wait_method.name(),
            responses.len(),
            seen - model
        );
    }
}

impl WaitMethod {
    fn name(self) -> &'static str {
        if self == WaitMethod::Asleep { "asleep" } else { "awake " }
    }
}

fn print_line(name: &str, wait_method: WaitMethod, model: f64, mut errors: Vec<f64>) {
    if errors.is_empty() {
        println!("{name:46} {} {:9} {model:9.1}  no reply was measured", wait_method.name(), 0);
        return;
    }
    errors.sort_by(f64::total_cmp);
    let quantile = |share: f64| errors[((errors.len() - 1) as f64 * share) as usize];
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    println!(
        "{name:46} {} {:9} {model:9.1}  {mean:8.1} {:8.1} {:8.1} {:8.1} {:8.1}",
        wait_method.name(),
        errors.len(),
        quantile(0.5),
        quantile(0.99),
        quantile(0.999),
        quantile(1.0)
    );
}

/// Prints the lateness that the server itself reports.
fn print_server_lateness(running: &Running) {
    let status = running.send_command(&DiskCommand::Status).expect("a status");
    let of = |key: &str| status["late_s"][key].as_f64().unwrap_or(f64::NAN) * 1e6;
    println!(
        "    the server sent replies late by: mean {:.1}, 99 % {:.1}, most {:.1}",
        of("mean"),
        of("p99"),
        of("max")
    );
}

/// Returns response times, ns, in order of arrival.
fn measure_responses(running: &Running, pace: Pace, wait_method: WaitMethod, duration: Duration) -> Vec<u64> {
    let client = running.open("", ClientOptions { structured: false, block_status: false });
    let mut meter = Meter {
        stream: client.stream().try_clone().expect("a second handle"),
        input: vec![0; 256 << 10],
        filled: 0,
        sent: Vec::new(),
        latencies_ns: Vec::new(),
    };
    meter.stream.set_nonblocking(true).expect("nonblocking");
    run_in_stints(wait_method, duration, |stint| meter.run(pace, wait_method, stint));
    meter.latencies_ns
}

struct Meter {
    stream: UnixStream,
    input: Vec<u8>,
    filled: usize,
    /// Send times by cookie.
    sent: Vec<Instant>,
    latencies_ns: Vec<u64>,
}

impl Meter {
    fn run(&mut self, pace: Pace, wait_method: WaitMethod, duration: Duration) {
        let begin = Instant::now();
        let end = begin + duration;
        let mut next = begin;
        if let Pace::Closed(depth) = pace {
            (0..depth).for_each(|_| self.send());
        }
        loop {
            let now = Instant::now();
            let over = now >= end;
            if over && self.latencies_ns.len() == self.sent.len() {
                return;
            }
            let mut wait = Duration::from_millis(100);
            if let Pace::Open(rate) = pace
                && !over
            {
                while next <= now {
                    self.send();
                    // uneven, so that replies do not always arrive when the next request is sent
                    next += Duration::from_secs_f64(random_factor(self.sent.len()) / rate);
                }
                wait = next.saturating_duration_since(Instant::now());
            }
            if wait_method == WaitMethod::Asleep {
                self.sleep(wait);
            }
            let answered = self.receive();
            if matches!(pace, Pace::Closed(_)) && !over {
                (0..answered).for_each(|_| self.send());
            }
        }
    }

    fn sleep(&self, max_time: Duration) {
        let max_time = Timespec { tv_sec: max_time.as_secs() as i64, tv_nsec: i64::from(max_time.subsec_nanos()) };
        let mut fds = [PollFd::new(&self.stream, PollFlags::IN)];
        // interrupted or not, the loop checks the time again
        let _ = poll(&mut fds, Some(&max_time));
    }

    fn send(&mut self) {
        let cookie = self.sent.len() as u64;
        let offset =
            cookie.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (DISK_BYTES / REQUEST_BYTES as u64) * REQUEST_BYTES as u64;
        let request = NbdRequest {
            flags: CommandFlags(0),
            command: NbdCommand::Read,
            cookie,
            offset,
            length: REQUEST_BYTES as u32,
        };
        self.sent.push(Instant::now());
        self.stream.write_all(&request.encode_header()).expect("room for a request");
    }

    /// Returns the number of replies received.
    fn receive(&mut self) -> usize {
        match self.stream.read(&mut self.input[self.filled..]) {
            Ok(0) => panic!("the server went away"),
            Ok(bytes) => self.filled += bytes,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return 0,
            Err(error) => panic!("{error}"),
        }
        let now = Instant::now();
        let answers = self.filled / REPLY_BYTES;
        for answer in self.input[..self.filled].chunks_exact(REPLY_BYTES) {
            let head: [u8; 8] = answer[8..16].try_into().expect("eight bytes");
            assert_eq!(answer[4..8], [0; 4], "no error");
            self.latencies_ns.push((now - self.sent[u64::from_be_bytes(head) as usize]).as_nanos() as u64);
        }
        self.input.copy_within(answers * REPLY_BYTES..self.filled, 0);
        self.filled -= answers * REPLY_BYTES;
        answers
    }
}
