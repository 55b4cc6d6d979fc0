//! Load during the recording: fio with a different job on each disk.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// fio options of the jobs, assigned to the disks in turn.
const FIO_JOBS: &[&str] = &[
    "rw=randread\nbs=8k\ndirect=1\nioengine=libaio\niodepth=4\nrate_iops=150",
    "rw=randrw\nbs=4k\ndirect=1\nioengine=psync\nrate_iops=60\nfsync=16",
    "rw=randwrite\nbssplit=4k/60:16k/30:64k/10\ndirect=1\nioengine=libaio\niodepth=8\nrate_iops=80",
    "rw=read\nbs=128k\ndirect=1\nioengine=psync\nrate_iops=25",
    "rw=randrw\nrwmixread=75\nbsrange=4k-32k\ndirect=1\nioengine=libaio\niodepth=16\nrate_iops=100",
    "rw=write\nbs=64k\ndirect=1\nioengine=psync\nfsync=4\nrate_iops=15",
    "rw=randread\nbs=4k\ndirect=1\nioengine=psync\nthinktime=200ms\nthinktime_blocks=40",
    "rw=randwrite\nbs=8k\nioengine=psync\nrate_iops=40",
];

/// A running fio; stops and cleans up when dropped.
pub struct Load {
    pub description: String,
    fio: Child,
    loops: Vec<String>,
}

impl Load {
    /// Starts fio for at least `seconds`; returns `None`, and prints why, if fio is not available.
    pub fn start(work: &Path, disks: u64, seconds: u64) -> Option<Load> {
        let files: Vec<PathBuf> = (0..disks).map(|i| work.join(format!("disk{i}"))).collect();
        for file in &files {
            File::create(file).and_then(|f| f.set_len(128 << 20)).expect("room for sparse files");
        }
        let loops: Vec<String> = files.iter().map_while(|file| bind_loop_device(file)).collect();
        let bound = loops.len() as u64 == disks;
        let targets: Vec<String> = match bound {
            true => loops.clone(),
            false => files.iter().map(|f| f.display().to_string()).collect(),
        };
        let mut jobs = format!("[global]\ntime_based=1\nruntime={}\nsize=120m\nrate_process=poisson\n", seconds + 60);
        for (i, target) in targets.iter().enumerate() {
            jobs += &format!("[job{i}]\nfilename={target}\n{}\n", FIO_JOBS[i % FIO_JOBS.len()]);
        }
        let file = work.join("jobs.fio");
        std::fs::write(&file, jobs).expect("room");
        let spawned = Command::new("fio").arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let description =
            format!("fio, {disks} {}", if bound { "loop devices" } else { "files (not root: no loop devices)" });
        match spawned {
            Ok(fio) => Some(Load { description, fio, loops }),
            Err(e) => {
                println!("no load: fio: {e}");
                loops.iter().for_each(|l| release_loop_device(l));
                None
            }
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // on the terminate signal fio ends its children too, on kill it does not
        let _ = Command::new("kill").arg(self.fio.id().to_string()).status();
        let _ = self.fio.wait();
        self.loops.iter().for_each(|l| release_loop_device(l));
    }
}

fn bind_loop_device(file: &Path) -> Option<String> {
    let output = Command::new("losetup").args(["-f", "--show"]).arg(file).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn release_loop_device(device: &str) {
    let _ = Command::new("losetup").args(["-d", device]).status();
}
