//! Other programs that read `sadf -j`, and their processor time. Each only collects the numbers of the disks, which is
//! less work than the reader does.

use std::path::Path;
use std::process::Command;

/// Script that runs a command and prints the processor seconds of it alone, and its memory.
const TIMER_SCRIPT: &str = "
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
if done.returncode: sys.exit(done.stderr.decode(errors='replace').strip().splitlines()[-1][:150])
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
";

const JSON_SCRIPT: &str = "
import json, sys
document = json.load(open(sys.argv[1]))
rows = [(s['timestamp']['date'], s['timestamp']['time'], d['disk-device'], d['tps'], d['await'], d['aqu-sz'])
        for h in document['sysstat']['hosts'] for s in h['statistics'] for d in s['disk']]
";

const PANDAS_SCRIPT: &str = "
import json, sys, pandas
document = json.load(open(sys.argv[1]))
samples = document['sysstat']['hosts'][0]['statistics']
pandas.json_normalize(samples, 'disk', [['timestamp', 'date'], ['timestamp', 'time']])
";

const DUCKDB_SCRIPT: &str = "
import os, sys, duckdb
connection = duckdb.connect(config={'threads': 1})
size = os.path.getsize(sys.argv[1]) + 1
connection.execute('''
  with h as (select unnest(sysstat.hosts) h from read_json(?, maximum_object_size=%d, sample_size=1)),
  s as (select unnest(h.statistics) s from h),
  d as (select s.timestamp t, unnest(s.disk) d from s)
  select t.date, t.time, d from d
''' % size, [sys.argv[1]]).fetchnumpy()
";

const JQ_FILTER: &str = ".sysstat.hosts[].statistics[] | .timestamp as $t | .disk[] | \
                  [$t.date, $t.time, .[\"disk-device\"], .tps, .await, .[\"aqu-sz\"]] | @csv";

/// Measures each of them on a file.
pub fn measure_peers(path: &Path, python: &str) {
    let file = path.to_string_lossy();
    let megabytes = std::fs::metadata(path).map_or(0, |m| m.len()) as f64 * 1e-6;
    for (name, command) in [
        ("  python json.load, a list of disks", vec![python, "-c", JSON_SCRIPT, &file]),
        ("  the same into pandas", vec![python, "-c", PANDAS_SCRIPT, &file]),
        ("  DuckDB read_json, one thread", vec![python, "-c", DUCKDB_SCRIPT, &file]),
        ("  jq to CSV", vec!["jq", "-r", JQ_FILTER, &file]),
    ] {
        let timed = Command::new(python).args(["-c", TIMER_SCRIPT]).args(&command).output();
        let output = timed.map_or_else(
            |e| Err(e.to_string()),
            |o| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
                if o.status.success() { Ok(text(&o.stdout)) } else { Err(text(&o.stderr)) }
            },
        );
        let numbers: Result<Vec<f64>, String> =
            output.map(|text| text.split_whitespace().filter_map(|w| w.parse().ok()).collect());
        match numbers.as_deref() {
            Ok([seconds, resident]) => {
                println!("{name:<34} {megabytes:>7.1} {:>26.0} {resident:>19}", megabytes / seconds);
            }
            Ok(_) => println!("{name:<34} left out: nothing measured"),
            Err(why) => println!("{name:<34} left out: {}", why.lines().last().unwrap_or_default()),
        }
    }
}
