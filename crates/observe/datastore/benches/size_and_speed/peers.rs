//! Other recorders, running during the same minutes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const SADC: &[&str] = &["/usr/lib/sysstat/sadc", "/usr/lib64/sa/sadc", "/usr/lib/sa/sadc"];
const NAMES: &str = "/var/lib/pcp/pmns/root";
const MERGE: &str = "/usr/lib/pcp/bin/pmnsmerge";

/// Metrics recorded by pmlogger: those of our recorder, as far as PCP has them.
const METRICS: &str = "disk.dev.read disk.dev.read_merge disk.dev.read_bytes disk.dev.read_rawactive \
    disk.dev.write disk.dev.write_merge disk.dev.write_bytes disk.dev.write_rawactive disk.dev.avactive \
    disk.dev.aveq disk.dev.discard disk.dev.discard_bytes disk.dev.discard_rawactive disk.dev.flush \
    disk.dev.flush_rawactive mem.util mem.vmstat.pgfault mem.vmstat.pgmajfault mem.vmstat.pswpin \
    mem.vmstat.pswpout mem.vmstat.pgpgin mem.vmstat.pgpgout mem.vmstat.nr_dirtied mem.vmstat.nr_written \
    kernel.all.cpu kernel.percpu.cpu kernel.all.load kernel.all.intr kernel.all.pswitch kernel.all.running \
    kernel.all.blocked kernel.all.softirqs kernel.all.pressure network.interface.in.bytes \
    network.interface.in.packets network.interface.out.bytes network.interface.out.packets";

/// A recorder that was started, or the reason why it was not.
pub struct Peer {
    name: &'static str,
    running: Result<Child, String>,
    files: Vec<PathBuf>,
}

/// Starts the installed recorders for `ticks` seconds.
pub fn start_peers(work: &Path, ticks: u64) -> Vec<Peer> {
    let sa = work.join("sa");
    let sadc = Peer { name: "sadc -S DISK", running: start_sadc(&sa, ticks), files: vec![sa] };
    let archive = work.join("archive");
    let files = ["0", "meta", "index"].map(|end| archive.with_extension(end)).to_vec();
    let pmlogger =
        Peer { name: "pmlogger, much the same counters", running: start_pmlogger(work, &archive, ticks), files };
    vec![sadc, pmlogger]
}

fn start_sadc(file: &Path, ticks: u64) -> Result<Child, String> {
    let program = SADC.iter().find(|p| Path::new(p).exists()).ok_or("sysstat is not installed")?;
    let mut command = Command::new(program);
    command.args(["-S", "DISK", "1", &ticks.to_string()]).arg(file).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(|e| format!("{program}: {e}"))
}

fn start_pmlogger(work: &Path, archive: &Path, ticks: u64) -> Result<Child, String> {
    let names = match Path::new(NAMES).exists() {
        true => PathBuf::from(NAMES),
        false => {
            // the package does not build its list of names until a service starts
            let made = work.join("names");
            let merged = Command::new(MERGE).args(["-f", "-a", "/var/lib/pcp/pmns/root_linux"]).arg(&made).output();
            merged.map_err(|e| format!("{MERGE}: {e}"))?;
            made
        }
    };
    let config = work.join("pmlogger.conf");
    let metrics: Vec<&str> = METRICS.split_whitespace().collect();
    let text = format!("log mandatory on 1 sec {{\n{}\n}}\n", metrics.join("\n"));
    fs::write(&config, text).map_err(|e| e.to_string())?;
    let mut command = Command::new("pmlogger");
    command.arg("-o").arg("-n").arg(names).arg("-c").arg(config).arg("-l").arg(work.join("pmlogger.log"));
    command.args(["-t", "1sec", "-T", &format!("{ticks}sec")]).arg(archive);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|e| format!("pmlogger: {e}"))
}

impl Peer {
    /// Waits for the recorder and prints the size of its log.
    pub fn report(self, ticks: u64) {
        let done = self.running.and_then(|mut child| child.wait().map_err(|e| e.to_string()));
        let bytes: u64 = self.files.iter().map(|f| fs::metadata(f).map_or(0, |m| m.len())).sum();
        match done {
            Ok(_) if bytes > 0 => println!("{:<44} {bytes:>9} {:>12.1}", self.name, bytes as f64 / ticks as f64),
            Ok(status) => println!("{}: skipped: it wrote nothing ({status})", self.name),
            Err(why) => println!("{}: skipped: {why}", self.name),
        }
    }
}
