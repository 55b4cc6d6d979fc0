//! Fuzz targets: each function takes any bytes and must neither panic nor allocate memory without bound. cargo-fuzz
//! runs them from `fuzz_targets/`, and `tests/fuzz.rs` runs them on mutated seeds in the ordinary tests.

use std::io::Write;
use std::ops::ControlFlow;

use diskwright_base::Frame;
use diskwright_counters::live::{SOURCES, mountinfo};
use diskwright_datastore::LogReader;
use diskwright_diagnosis::Pack;
use diskwright_logs::{FORMATS, FrameBatch, LogInput, LogOptions};

/// Any bytes as a segment file of a log, read to its end.
pub fn read_log(data: &[u8]) {
    let path = std::env::temp_dir().join(format!("diskwright-fuzz-{}.dwlog", std::process::id()));
    let written = std::fs::File::create(&path).and_then(|mut f| f.write_all(data));
    if written.is_err() {
        return;
    }
    let mut frame = Frame::default();
    if let Ok(mut reader) = LogReader::open(&path) {
        let _ = reader.time_range();
        while let Ok(Some(_)) = reader.next(&mut frame) {}
    }
    let _ = std::fs::remove_file(&path);
}

/// Any text as a rule pack.
pub fn load_rules(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = Pack::load("fuzz.toml", text);
    }
}

/// Any text as the experiments of a document.
pub fn read_experiments(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = diskwright_experiments::document::ExperimentDocument::read("fuzz.toml", text);
    }
}

/// Any bytes as each file of the kernel that a source reads.
pub fn parse_kernel_files(data: &[u8]) {
    for source in SOURCES {
        (source.parse_any)(data);
    }
    let _ = mountinfo::parse_mounts(data);
}

/// Any bytes as a stored profile.
pub fn parse_probe_profile(data: &[u8]) {
    if let Ok(profile) = diskwright_probe::profile::parse(data) {
        let _ = profile.ceiling();
    }
}

/// Any bytes as a result of `probe`.
pub fn render_probe_result(data: &[u8]) {
    if let Ok(document) = diskwright_results::document::ProbeDocument::parse("fuzz.json", data) {
        let named = diskwright_report::probe::NamedResult { name: "fuzz", document: &document };
        let zone = diskwright_report::DisplayZone::utc();
        let suite = |id: &str| diskwright_probe::suites::find_suite(id).map(|suite| suite.text());
        let results = vec![named, named];
        let page = diskwright_report::probe::ProbePage { results, suite, zone, version: String::new() };
        let _ = diskwright_report::probe::render_page(&page);
        let side = [("fuzz", &document)];
        let comparison = diskwright_results::compare::compare_results(&side, &side);
        let _ =
            diskwright_report::probe::compare::render_screen(&comparison, true, &diskwright_report::Style::plain(80));
    }
}

/// Any bytes as the application figures of `compare --beside`, shown on a page.
pub fn render_beside_document(data: &[u8]) {
    if let Ok(beside) = diskwright_report::beside_document::parse(data) {
        let title = beside.title;
        let sheet = diskwright_report::sheet::PageSheet {
            title,
            lead: beside.lead,
            sections: beside.sections,
            ..Default::default()
        };
        let _ = diskwright_report::sheet::render_page(&sheet);
    }
}

/// Any bytes as a request trace of each format, without recognition by content.
pub fn read_request_traces(data: &[u8]) {
    for format in diskwright_traces::FORMATS {
        let Ok(input) = LogInput::from_bytes("fuzz", data.to_vec()) else { return };
        let mut trace = diskwright_traces::with_format(format, vec![input]);
        let mut statistics = diskwright_traces::Statistics::new();
        let mut line = String::new();
        while let Some(Ok(request)) = trace.next() {
            statistics.push(&request);
            line.clear();
            diskwright_traces::write_csv_line(&mut line, &request, "fuzz");
        }
        let _ = statistics.finish(&trace.summary().devices);
        let Ok(input) = LogInput::from_bytes("fuzz", data.to_vec()) else { return };
        let mut sink = |_: diskwright_logs::LogPiece<'_>| std::ops::ControlFlow::Continue(());
        let _ = diskwright_traces::ticks::read(&mut diskwright_traces::with_format(format, vec![input]), &mut sink);
    }
}

/// Any bytes as pages of the ring buffer of the kernel, and as descriptions of events: decoded, sorted, paired,
/// summarized and written in the format of blktrace.
pub fn decode_trace_pages(data: &[u8]) {
    use diskwright_blocktrace::dirty_pages::{self, DirtyLayout};
    use diskwright_blocktrace::layout::{EventLayout, PageLayout};
    use diskwright_blocktrace::{BlktraceWriter, BlockEventKind, EventTable, RequestPairing, RequestSummary, reader};
    let text = String::from_utf8_lossy(data);
    let _ = (PageLayout::parse(&text), EventLayout::parse(BlockEventKind::Remap, &text));
    const FORMATS: &str = include_str!("../crates/observe/blocktrace/tests/fixtures/6.1/formats");
    let parts = FORMATS.split("name: ").skip(1);
    let layouts = parts.filter_map(|part| {
        let kind = BlockEventKind::ALL.into_iter().find(|kind| part.starts_with(&format!("{}\n", kind.name())))?;
        EventLayout::parse(kind, part).ok()
    });
    let mut table = EventTable::new(layouts.collect());
    let _ = DirtyLayout::parse(dirty_pages::DIRTY_EVENTS[0], &text);
    const DIRTY: &str = "ID: 7\nfield:int common_pid; offset:4; size:4;\nfield:char name[32]; offset:8; size:32;\n";
    table.dirty = DirtyLayout::parse(dirty_pages::DIRTY_EVENTS[0], DIRTY).ok();
    let header = include_str!("../crates/observe/blocktrace/tests/fixtures/6.1/header_page");
    let layout = PageLayout::parse(header).expect("a recorded header");
    let mut sorter = reader::EventSorter::default();
    data.chunks(4096).for_each(|page| sorter.add_page(0, page, &layout, &table));
    let mut pairing = RequestPairing::new(false, None);
    let mut summary = RequestSummary::new(0, 1_000_000_000);
    let mut writer = BlktraceWriter::new(std::io::sink(), 0, 0).expect("nowhere");
    sorter.drain_before(u64::MAX, |event| {
        writer.write_event(event).expect("nowhere");
        pairing.handle_event(event, &mut |request| summary.add_request(&request));
    });
    assert!(summary.slowest().len() <= 20);
}

/// Any bytes as a drive of DiskSim, and as every file that it includes; a drive that can be read serves a few requests.
pub fn read_drive_files(data: &[u8]) {
    use diskwright_simulator::{diskspecs, drive, io::Io};
    let text = String::from_utf8_lossy(data);
    let curve = "Seek distances measured: 2\n1, 1.0\n100, 5.0\n";
    let load = |path: &str| Ok(if path.ends_with(".seek") { curve.to_owned() } else { text.clone().into_owned() });
    let Ok(found) = diskspecs::read_drive("fuzz", &text, &load) else { return };
    let Ok(model) = drive::Model::new(&found.spec) else { return };
    let mut drive = drive::MechanicalDrive::new(&std::sync::Arc::new(model));
    let mut now = 0;
    for n in 0..40_u64 {
        let first = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % drive.model().capacity_blocks();
        now = drive.start(now, &Io { first, blocks: 1 + (n as u32 * 37) % 200, write: n % 3 == 0 }).done_at;
    }
}

/// Any text as a description of a system whose other files are all empty.
pub fn read_system_description(data: &[u8]) {
    use diskwright_simulator::system::read::{Setting, read};
    let text = String::from_utf8_lossy(data);
    let settings = [Setting { key: "workload.users".into(), value: text.chars().take(9).collect() }];
    let _ = read("fuzz.toml", &text, &settings[..data.len() % 2], &|_| Ok(String::new()));
}

/// Any text as a file of drives; drives that can be read serve a few requests.
pub fn read_drive_catalogue(data: &[u8]) {
    use diskwright_simulator::catalogue::{self, measure};
    let Ok(text) = std::str::from_utf8(data) else { return };
    for entry in catalogue::read("fuzz.toml", text).unwrap_or_default().iter().take(4) {
        let Ok(device) = entry.build_device() else { continue };
        for pattern in measure::DrivePattern::ALL {
            let _ = measure::measure_pattern(&device, pattern, 8, 4, 20);
        }
    }
}

/// Reads any bytes as a log of one foreign format, without recognition by content. Options that a log may need are
/// given, so that reading does not stop early.
#[allow(dead_code, reason = "each fuzz target uses one function of the file")]
fn read_foreign_log(format: &str, data: &[u8]) {
    let Some(format) = FORMATS.iter().find(|f| f.id == format) else { panic!("no format {format}") };
    let Ok(mut input) = LogInput::from_bytes("fuzz", data.to_vec()) else { return };
    let interval = Some(std::time::Duration::from_secs(1));
    let options = LogOptions { utc_offset_s: Some(0), interval, ..LogOptions::default() };
    let mut sink = |_: diskwright_logs::LogPiece<'_>| ControlFlow::Continue(());
    let mut batch = FrameBatch::new(format.id, &mut sink);
    let _ = (format.read)(&mut input, &options, &mut batch);
    let _ = batch.finish("fuzz");
}

/// Any bytes as a PCP archive: `.meta` and two volumes, each after its length in two bytes.
pub fn read_pcp_archive(data: &[u8]) {
    let mut rest = data;
    let parts = [(); 3].map(|()| {
        let length = rest.split_first_chunk::<2>().map_or(0, |(l, _)| usize::from(u16::from_be_bytes(*l)));
        let body = rest.get(2..).unwrap_or_default();
        let (part, after) = body.split_at(length.min(body.len()));
        rest = after;
        part
    });
    let mut sink = |_: diskwright_logs::LogPiece<'_>| ControlFlow::Continue(());
    let mut batch = FrameBatch::new("pcp", &mut sink);
    let _ = diskwright_logs::pcp::read_bytes(parts[0], &parts[1..], &mut batch);
    let _ = batch.finish("fuzz");
}

/// Any bytes as Performance Monitor text.
pub fn read_perfmon_text(data: &[u8]) {
    read_foreign_log("perfmon-text", data);
}

/// Any bytes as one of the JSON documents of sysstat; their length chooses which.
pub fn read_sysstat_json(data: &[u8]) {
    read_foreign_log(["sadf-json", "iostat-json", "mpstat-json"][data.len() % 3], data);
}

/// Any bytes as `sadf -x`.
pub fn read_sysstat_xml(data: &[u8]) {
    read_foreign_log("sadf-xml", data);
}

/// Any bytes as the text of sar, iostat, sadf or vmstat; their length chooses which.
pub fn read_sysstat_text(data: &[u8]) {
    read_foreign_log(["sar-text", "iostat-text", "sadf-rows", "vmstat-text"][data.len() % 4], data);
}

/// Any bytes as output of dstat, nmon, collectl or atop, or as CSV of a dashboard; their length chooses which.
pub fn read_tool_text(data: &[u8]) {
    read_foreign_log(["dstat-csv", "nmon", "collectl-table", "collectl-raw", "atop-text", "csv"][data.len() % 6], data);
}

/// Any bytes as output of shell loops over /proc, of top, of tools of other systems, or of dmesg; their length chooses.
pub fn read_system_text(data: &[u8]) {
    const FORMATS: [&str; 5] = ["proc-loop", "top-text", "unix-iostat", "unix-sar", "kernel-log"];
    read_foreign_log(FORMATS[data.len() % FORMATS.len()], data);
}

/// Any bytes as exposition pages of Prometheus.
pub fn read_prometheus_text(data: &[u8]) {
    read_foreign_log("prometheus-text", data);
}

/// Any bytes as answers of a Prometheus store.
pub fn read_prometheus_answers(data: &[u8]) {
    use diskwright_remote::answer::{QueryGrid, read_matrix, read_names, read_sample_times, read_series};
    let grid = QueryGrid { first_ms: 1_700_000_000_000, step_ms: 15_000, count: 100, shift_ms: 0 };
    let max_bytes = 1 << 20;
    let _ = read_matrix(data, max_bytes, &grid, &mut |_| Ok(()));
    let _ = read_names(data, max_bytes, &mut |_| Ok(()));
    let _ = read_series(data, max_bytes, &mut |_| Ok(()));
    let _ = read_sample_times(data, max_bytes);
}

/// Any bytes as a binary log of Windows Performance Monitor.
pub fn read_perfmon_blg(data: &[u8]) {
    read_foreign_log("perfmon-blg", data);
}

/// Any text as the ledger of the arrays in the file of a virtual disk.
pub fn check_disk_ledger(data: &[u8]) {
    use diskwright_simulator::ArrayLevel;
    use diskwright_simulator::system::ArraySpec;
    let _ = diskwright_virtualdisk::content::check_ledger(
        data,
        &[ArraySpec::new("data", ArrayLevel::Raid5, vec![0, 1, 2])],
    );
}

/// Any text as a script for the probe: as each kind by its file name, and recognized by content; files that it names
/// have the same content.
pub fn parse_probe_scripts(data: &[u8]) {
    use diskwright_probe::script::{Script, ScriptEnvironment, ScriptOptions};
    let Ok(text) = std::str::from_utf8(data) else { return };
    let read = |_: &std::path::Path| Ok(text.to_owned());
    let environment = ScriptEnvironment { read_file: &read, env_variable: &|_| Some("4k".to_owned()) };
    for name in ["a.fio", "a.sct", "a.scp", "a.scr", "a"] {
        let Ok(script) = Script::parse(std::path::Path::new(name), text, &environment) else { continue };
        let _ = script.required_targets(None);
        for job in script.jobs() {
            let pattern = job.pattern_on_target(1 << 30, &ScriptOptions::default());
            if pattern.find_fault(512, 1 << 30).is_none() {
                let mut draw = diskwright_probe::request_generator::RequestGenerator::new(&pattern, 1 << 30, 0, 1);
                (0..20).for_each(|_| assert!(draw.next_request().length > 0));
            }
        }
    }
}

/// Any bytes on either side of the protocol of network block devices; the first byte chooses the side and the size of
/// the pieces in which they arrive.
pub fn feed_nbd_protocol(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    if first & 1 == 0 { feed_nbd_server(usize::from(first >> 1) + 1, data) } else { feed_nbd_client(data) }
}

/// Any bytes from a client: answers must stay short, and accepted requests must lie within the export.
fn feed_nbd_server(piece: usize, data: &[u8]) {
    use diskwright_virtualdisk::nbd::handshake::{Handshake, HandshakeState, NbdExport};
    use diskwright_virtualdisk::nbd::{Exports, reply, request, wire::REQUEST_BYTES};
    let exports = Exports { list: vec![NbdExport::new("a", 1 << 20), NbdExport::new("b", 4096)], default: Some(0) };
    let (mut output, mut position, mut end) = (Vec::new(), 0, piece.min(data.len()));
    let mut handshake = Handshake::start(&mut output);
    let session = loop {
        let progress = handshake.process_input(&exports, &data[position..end], &mut output);
        position += progress.consumed;
        assert!(position <= end && output.len() < 512 << 10);
        output.clear();
        match progress.state {
            HandshakeState::Ready(session) => break session,
            HandshakeState::More if end < data.len() => end = (end + piece).min(data.len()),
            HandshakeState::More | HandshakeState::Close(_) => return,
        }
    };
    let export = &exports.list[session.export];
    while let request::RequestParse::Request(request) = request::parse(data.get(position..).unwrap_or_default()) {
        position += REQUEST_BYTES + request.payload_bytes() as usize;
        match request::check_request(&request, export, &session) {
            request::RequestCheck::Do => assert!(request.offset + u64::from(request.length) <= export.bytes),
            request::RequestCheck::Refuse(error, because) => {
                reply::append_error(&mut output, &session, request.cookie, error, because);
            }
            request::RequestCheck::Disconnect | request::RequestCheck::Close(_) => return,
        }
        let extents = (1..).map(|n| reply::NbdExtent { bytes: request.offset % 512 + n, is_allocated: n % 3 == 0 });
        reply::append_block_status(&mut output, &request, extents.take(50));
        assert!(output.len() < 1000);
        output.clear();
    }
}

/// Any bytes from a server: the client must end.
fn feed_nbd_client(data: &[u8]) {
    use diskwright_virtualdisk::nbd::client::{ClientOptions, ClientRequest, NbdClient, list_exports};
    use diskwright_virtualdisk::nbd::wire::{CommandFlags, NbdCommand};
    struct Server<'a>(&'a [u8]);
    impl std::io::Read for Server<'_> {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(to)
        }
    }
    impl std::io::Write for Server<'_> {
        fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
            Ok(from.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let _ = list_exports(Server(data));
    let Ok(mut client) = NbdClient::start(Server(data), "a", ClientOptions::default()) else { return };
    let status = ClientRequest::Other { command: NbdCommand::BlockStatus, offset: 0, length: 4096 };
    for request in [
        ClientRequest::Read { offset: 512, length: 1024 },
        ClientRequest::Flush,
        status,
        ClientRequest::Read { offset: 0, length: 9 },
    ] {
        let _ = client.send_request(request, CommandFlags(0));
    }
    while client.in_flight() > 0 {
        let Ok(answer) = client.receive_reply() else { return };
        assert!(answer.data.is_empty() || answer.data.len() == answer.length as usize);
    }
}

/// Any bytes as the URI of an export, and as the answer of the kernel to a netlink command of `disk attach`; the first
/// byte chooses the attribute that is looked up.
pub fn parse_attach_input(data: &[u8]) {
    use diskwright_virtualdisk::attach::{export_address::ExportAddress, netlink};
    if let Ok(export) = ExportAddress::parse(&String::from_utf8_lossy(data)) {
        assert_eq!(ExportAddress::parse(&export.to_string()).as_ref(), Ok(&export));
    }
    let (first, rest) = data.split_first().map_or((0, data), |(first, rest)| (*first, rest));
    let _ = netlink::parse_replies(rest, u16::from(first % 16));
}
