//! `stream-counters`: prints the ticks of this machine for our program on another host, which asked over ssh.

use std::io::Read;
use std::time::Duration;

use clap::Args;
use diskwright_base::Note;
use diskwright_base::units::parse_duration;
use diskwright_counters::live::SamplerOptions;
use diskwright_datastore::StreamWriter;

use crate::commands::live_sampler::live_sampler;
use crate::commands::own_cost::RecordingMeter;
use crate::commands::pacer::Pacer;
use crate::commands::record::host_settings::HostSettingsThread;
use crate::commands::{Failure, ceilings, output};

/// Shortest interval of the costly work.
const MIN_SLOW_INTERVAL: Duration = Duration::from_secs(2);

/// Arguments of `stream-counters`.
#[derive(Args)]
pub struct Arguments {
    /// Do nothing: shows that this program has the command
    #[arg(long)]
    check: bool,
    /// Sampling interval
    #[arg(long, default_value = "1s", value_parser = parse_duration, value_name = "DURATION")]
    every: Duration,
    /// How long; 0s until the connection ends
    #[arg(long = "for", default_value = "0s", value_name = "DURATION")]
    lasts: String,
}

/// Runs `stream-counters`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.check {
        return Ok(());
    }
    let lasts = match arguments.lasts.as_str() {
        "0s" | "0" => None,
        text => Some(parse_duration(text).map_err(|error| Failure::Usage(format!("--for: {error}")))?),
    };
    let mut pacer = Pacer::new(arguments.every, lasts)?;
    end_with_input();
    let settings = HostSettingsThread::start().ok();
    let options = SamplerOptions { slow_interval: arguments.every.max(MIN_SLOW_INTERVAL), ..SamplerOptions::default() };
    let mut sampler = live_sampler(options);
    let mut stream = StreamWriter::begin(output::lock_stdout())?;
    pacer.reset_start();
    let mut meter = RecordingMeter::start();
    let mut goes_on = pacer.sample_first_tick(&mut sampler);
    let mut ticks = 0;
    while goes_on {
        let mut notes = sampler.take_notes();
        let profiles = notes.iter().filter(|note| note.kind == Note::TOPOLOGY).filter_map(ceilings::ceilings_note);
        let profiles: Vec<Note> = profiles.collect();
        notes.extend(profiles);
        notes.extend(settings.iter().flat_map(HostSettingsThread::take_notes));
        stream.push_notes(&notes)?;
        stream.push_tick(sampler.schema(), sampler.tick_stamp(), sampler.row())?;
        ticks += 1;
        goes_on = pacer.wait_for_tick(|_| {}) && pacer.sample_tick(&mut sampler);
    }
    let end_ns = sampler.tick_stamp().time_ns;
    let missed = pacer.take_missed_text().map(|text| Note::new(end_ns, Note::MISSED, text));
    let cost = Note::cost(end_ns, &meter.take_cost(ticks));
    stream.push_notes(&missed.into_iter().chain([cost]).collect::<Vec<_>>())?;
    Ok(())
}

/// Ends this process when its input ends: then the other side is gone.
fn end_with_input() {
    let watch = std::thread::Builder::new().name("input".into()).stack_size(128 << 10).spawn(|| {
        let mut buffer = [0; 256];
        while matches!(std::io::stdin().read(&mut buffer), Ok(1..)) {}
        let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTERM);
    });
    // without it, a closed output ends the process at its next tick
    drop(watch);
}
