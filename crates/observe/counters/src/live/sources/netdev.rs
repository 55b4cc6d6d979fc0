//! `/proc/net/dev`: traffic of the network interfaces. The speed of their links comes from sysfs.
//!
//! If any interface has hardware behind it, only such interfaces are followed: a bridge, a tunnel and a container's end
//! of a pair carry the same bytes again. So does the virtual function through which an adapter of Hyper-V or virtio
//! passes its traffic (drivers/net/hyperv/netvsc_drv.c, net_failover.c): the adapter counts it, and has hardware behind
//! it, too. In a container, where there is no hardware, all interfaces except the loopback are followed.

use diskwright_base::counter_ids::network;
use std::hint::black_box;

use crate::live::counter_table::{
    ABSENT, CounterReset, CounterTable, TableColumn, column_index, level_column, total_column,
};
use crate::live::open_file::{OpenFile, read_text};
use crate::live::text_scan::{WordIter, parse_number, text_lines, trim_blanks};
use crate::live::tick_context::TickContext;
use crate::live::watched_read::list_folder;
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "netdev",
    files: &["/proc/net/dev", "/sys/class/net/INTERFACE/speed"],
    explain: "Bytes, packets, errors and drops of network interfaces, and the speed of their links.",
    parse_any: |bytes| text_lines(bytes).for_each(|line| _ = black_box(parse_line(line))),
    open: |roots, _: &SamplerOptions| Some(Box::new(Netdev::new(roots))),
};

const COLUMNS: [TableColumn; 9] = [
    total_column(network::RECEIVED_BYTES, 1.0),
    total_column(network::RECEIVED_PACKETS, 1.0),
    total_column(network::RECEIVED_ERRORS, 1.0),
    total_column(network::RECEIVED_DROPPED, 1.0),
    total_column(network::SENT_BYTES, 1.0),
    total_column(network::SENT_PACKETS, 1.0),
    total_column(network::SENT_ERRORS, 1.0),
    total_column(network::SENT_DROPPED, 1.0),
    level_column(network::LINK_BYTES_PER_S, 1.0),
];
const LINK_COLUMN: usize = column_index(&COLUMNS, "network.link_bytes_per_s");
/// Positions of the totals among the numbers of a line: four received, four sent.
const TOTAL_POSITIONS: [usize; LINK_COLUMN] = [0, 1, 2, 3, 8, 9, 10, 11];

/// Parses a line into the interface and its sixteen numbers.
pub fn parse_line(line: &[u8]) -> Option<(&[u8], [u64; 16])> {
    // a name may hold a colon (an alias), the numbers do not
    let colon = memchr::memrchr(b':', line)?;
    let mut words = WordIter::new(&line[colon + 1..]);
    let mut numbers = [0; 16];
    for number in &mut numbers {
        *number = words.next_number()??;
    }
    Some((trim_blanks(&line[..colon]), numbers))
}

struct NetdevSlot {
    name: Box<[u8]>,
    row: Option<usize>,
    link_bytes_per_s: u64,
}

struct Netdev {
    file: OpenFile,
    slots: Vec<NetdevSlot>,
    tables: [CounterTable; 1],
}

impl Netdev {
    fn new(roots: &Roots) -> Netdev {
        Netdev {
            file: OpenFile::in_pieces(roots.proc.join("net/dev"), "network traffic is not seen"),
            slots: Vec::new(),
            tables: [CounterTable::new("network interface", &COLUMNS, CounterReset::WholeRow)],
        }
    }

    /// At a slow tick, drops interfaces that are gone from the schema and reads the speed of links again.
    fn refresh_interfaces(&mut self, context: &TickContext) {
        let [table] = &mut self.tables;
        // a virtual function appears some seconds before its adapter claims it
        let is_claimed = |slot: &NetdevSlot| slot.row.is_some() && has_hardware_master(context.roots, &slot.name);
        let any_claimed = self.slots.iter().any(is_claimed);
        if table.any_gone() || any_claimed {
            table.retain_rows(|name, gone| !gone && !has_hardware_master(context.roots, name.as_bytes()));
            // rebuilt from the next lines
            self.slots.clear();
        }
        for slot in self.slots.iter_mut().filter(|slot| slot.row.is_some()) {
            slot.link_bytes_per_s = link_speed(context.roots, &slot.name);
        }
    }
}

/// Reads the speed of the link, bytes per second; `ABSENT` for links that are down, wireless or virtual.
fn link_speed(roots: &Roots, name: &[u8]) -> u64 {
    let file = roots.sys.join("class/net").join(&*String::from_utf8_lossy(name)).join("speed");
    let megabits = read_text(&file).and_then(|text| parse_number(text.as_bytes()));
    // an unknown speed is -1, which old kernels print unsigned
    megabits.filter(|m| (1..10_000_000).contains(m)).map_or(ABSENT, |m| m * 125_000)
}

/// Returns true if another interface with hardware is the master of this one, and therefore counts the same bytes.
fn has_hardware_master(roots: &Roots, name: &[u8]) -> bool {
    let folder = roots.sys.join("class/net").join(&*String::from_utf8_lossy(name));
    folder.join("master/device").exists()
}

fn is_followed_interface(roots: &Roots, name: &str) -> bool {
    let folder = roots.sys.join("class/net");
    let has_hardware = |name: &str| folder.join(name).join("device").exists();
    let any_has_hardware = || {
        let entries = list_folder(&folder);
        entries.filter_map(|e| e.file_name().into_string().ok()).any(|name| has_hardware(&name))
    };
    name != "lo" && (has_hardware(name) || !any_has_hardware()) && !has_hardware_master(roots, name.as_bytes())
}

impl CounterSource for Netdev {
    fn read_tick(&mut self, context: &mut TickContext) {
        if context.is_slow_tick {
            self.refresh_interfaces(context);
        }
        let [table] = &mut self.tables;
        let Some(text) = self.file.read(context) else { return table.blank_all() };
        table.begin_tick();
        let mut cursor = 0;
        for (name, numbers) in text_lines(text).filter_map(parse_line) {
            let is_at_cursor = self.slots.get(cursor).is_some_and(|s| *s.name == *name);
            let found = if is_at_cursor { Some(cursor) } else { self.slots.iter().position(|s| *s.name == *name) };
            let index = found.unwrap_or_else(|| {
                let text = String::from_utf8_lossy(name);
                let row = is_followed_interface(context.roots, &text).then(|| table.row_or_insert(&text));
                self.slots.push(NetdevSlot {
                    name: name.into(),
                    row,
                    link_bytes_per_s: link_speed(context.roots, name),
                });
                self.slots.len() - 1
            });
            cursor = index + 1;
            let slot = &self.slots[index];
            if let Some(row) = slot.row {
                let values = table.row_mut(row);
                for (to, from) in values.iter_mut().zip(TOTAL_POSITIONS) {
                    *to = numbers[from];
                }
                values[LINK_COLUMN] = slot.link_bytes_per_s;
            }
        }
        table.compute_cells(context);
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

#[cfg(test)]
mod tests {
    use crate::live::fake::FakeMachine;
    use diskwright_base::Note;

    fn text(names: &[&str], bytes: u64) -> String {
        let line = |name: &&str| format!("{name}: {bytes} 10 1 2 0 0 0 0 {bytes} 20 3 4 0 0 0 0\n");
        format!("Inter-| Receive\n face |bytes\n{}", names.iter().map(line).collect::<String>())
    }

    #[test]
    fn only_hardware_interfaces_are_followed_if_there_are_any() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files().put_file("proc/net/dev", text(&["lo", "eth0", "br0"], 1000));
        machine.put_file("sys/class/net/eth0/device/vendor", "x").put_file("sys/class/net/eth0/speed", "1000\n");
        machine.put_file("sys/class/net/br0/speed", "1000\n");
        let mut watch = machine.watch_default();
        watch.tick();
        machine.put_file("proc/net/dev", text(&["lo", "eth0", "br0"], 5000));
        watch.tick_after(1.0);
        assert_eq!(watch.sampler.schema().instances("network"), ["eth0"]);
        assert_eq!(watch.value("network.received_bytes", "eth0"), 4000.0);
        assert_eq!(watch.value("network.link_bytes_per_s", "eth0"), 125e6);
        assert_eq!(watch.value("network.sent_dropped", "eth0"), 0.0);
    }

    /// Accelerated networking: the adapter counts what its virtual function carries. Members of a bond stay.
    #[test]
    fn a_function_that_an_adapter_takes_is_not_counted_again() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files().put_file("proc/net/dev", text(&["eth0", "enP1s1", "eno1", "bond0"], 1000));
        for name in ["eth0", "enP1s1", "eno1"] {
            machine.put_file(&format!("sys/class/net/{name}/device/vendor"), "x");
        }
        machine.put_file("sys/class/net/bond0/speed", "1000\n").put_link("sys/class/net/eno1/master", "../bond0");
        let mut watch = machine.watch_default();
        watch.tick();
        assert_eq!(watch.sampler.schema().instances("network"), ["eth0", "enP1s1", "eno1"]);
        machine.put_link("sys/class/net/enP1s1/master", "../eth0");
        machine.put_file("proc/net/dev", text(&["eth0", "enP1s1", "eno1", "bond0"], 5000));
        watch.tick_after(5.0);
        assert_eq!(watch.sampler.schema().instances("network"), ["eth0", "eno1"]);
        assert_eq!(watch.value("network.received_bytes", "eth0"), 4000.0);
        assert!(!watch.has_note(Note::GAP, "enP1s1"), "it is not gone");
        watch.tick_after(5.0);
        assert_eq!(watch.sampler.schema().instances("network"), ["eth0", "eno1"]);
    }

    #[test]
    fn in_a_container_all_but_the_loopback_and_no_link_speed() {
        let machine = FakeMachine::new();
        machine
            .put_ordinary_files()
            .put_file("proc/net/dev", text(&["lo", "eth0"], 1000))
            .put_file("sys/class/net/eth0/speed", "-1\n");
        let mut watch = machine.watch_default();
        watch.tick();
        assert_eq!(watch.sampler.schema().instances("network"), ["eth0"]);
        assert!(watch.find_value("network.link_bytes_per_s", "eth0").is_none());
    }

    #[test]
    fn an_interface_that_restarts_or_goes_is_a_gap() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files().put_file("proc/net/dev", text(&["eth0", "eth1"], 1000));
        let mut watch = machine.watch_default();
        watch.tick();
        machine.put_file("proc/net/dev", text(&["eth1"], 10));
        watch.tick_after(1.0);
        assert!(watch.value("network.received_bytes", "eth0").is_nan());
        assert!(watch.value("network.received_bytes", "eth1").is_nan());
        assert!(watch.value("network.received_packets", "eth1").is_nan());
        assert!(watch.has_note(Note::GAP, "network interface eth0 is gone"));
        machine.put_file("proc/net/dev", text(&["eth1"], 30));
        watch.tick_after(5.0);
        assert_eq!(watch.value("network.received_bytes", "eth1"), 20.0);
        assert!(watch.find_value("network.received_bytes", "eth0").is_none());
    }
}
