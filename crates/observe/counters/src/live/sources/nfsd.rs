//! `/proc/net/rpc/nfsd` and `/proc/fs/nfsd/pool_stats`: load of this machine's own NFS server, and signs that its
//! threads do not suffice.

use diskwright_base::counter_ids::nfs_server;
use std::hint::black_box;

use crate::live::counter_table::{
    ABSENT, CounterReset, CounterTable, TableColumn, column_index, level_column, sum32_column, total_column,
    total32_column,
};
use crate::live::open_file::OpenFile;
use crate::live::text_scan::{WordIter, text_lines};
use crate::live::tick_context::TickContext;
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "nfsd",
    files: &["/proc/net/rpc/nfsd", "/proc/fs/nfsd/pool_stats"],
    explain: "The NFS server of this machine: calls, operations, bytes, threads, and what found no idle thread.",
    parse_any: |bytes| {
        let mut values = [ABSENT; COLUMNS.len()];
        parse_statistics(bytes, &mut values);
        add_pools(bytes, &mut values);
        _ = black_box(values);
    },
    open: |roots, _: &SamplerOptions| Some(Box::new(NfsServer::new(roots))),
};

/// Before Linux 5.13 bytes and operations are 32-bit numbers (fs/nfsd/stats.h); each version of the protocol counts its
/// own operations.
const COLUMNS: [TableColumn; 10] = [
    level_column(nfs_server::THREADS, 1.0),
    total32_column(nfs_server::CALLS, 1.0),
    total32_column(nfs_server::BAD_CALLS, 1.0),
    total32_column(nfs_server::READ_BYTES, 1.0),
    total32_column(nfs_server::WRITE_BYTES, 1.0),
    sum32_column(nfs_server::READS),
    sum32_column(nfs_server::WRITES),
    sum32_column(nfs_server::COMMITS),
    total_column(nfs_server::PACKETS, 1.0),
    total_column(nfs_server::THREADS_WOKEN, 1.0),
];
const THREADS_COLUMN: usize = column_index(&COLUMNS, "nfs_server.threads");
const CALLS_COLUMN: usize = column_index(&COLUMNS, "nfs_server.calls");
const BAD_CALLS_COLUMN: usize = column_index(&COLUMNS, "nfs_server.bad_calls");
const READ_BYTES_COLUMN: usize = column_index(&COLUMNS, "nfs_server.read_bytes");
const WRITE_BYTES_COLUMN: usize = column_index(&COLUMNS, "nfs_server.write_bytes");
/// Columns of READ, WRITE and COMMIT.
const OPERATION_COLUMNS: [usize; 3] = [
    column_index(&COLUMNS, "nfs_server.reads"),
    column_index(&COLUMNS, "nfs_server.writes"),
    column_index(&COLUMNS, "nfs_server.commits"),
];
const PACKETS_COLUMN: usize = column_index(&COLUMNS, "nfs_server.packets");
const THREADS_WOKEN_COLUMN: usize = column_index(&COLUMNS, "nfs_server.threads_woken");

/// Positions of READ, WRITE and COMMIT among the numbers of a version's line (fs/nfsd/stats.c: after their count, in
/// the order of the protocol's numbers).
const V3_POSITIONS: [usize; 3] = [6, 7, 21];
const V4_POSITIONS: [usize; 3] = [25, 38, 5];

/// Parses `/proc/net/rpc/nfsd`; values that it lacks are left unchanged.
pub fn parse_statistics(text: &[u8], values: &mut [u64]) {
    let mut operations = [ABSENT; 3];
    for line in text_lines(text) {
        let mut words = WordIter::new(line);
        let Some(key) = words.next_word() else { continue };
        match key {
            b"th" => read_columns(&mut words, values, &[THREADS_COLUMN]),
            b"rpc" => read_columns(&mut words, values, &[CALLS_COLUMN, BAD_CALLS_COLUMN]),
            b"io" => read_columns(&mut words, values, &[READ_BYTES_COLUMN, WRITE_BYTES_COLUMN]),
            b"proc3" => add_operations(&mut words, &mut operations, V3_POSITIONS),
            b"proc4ops" => add_operations(&mut words, &mut operations, V4_POSITIONS),
            _ => {}
        }
    }
    for (column, count) in OPERATION_COLUMNS.into_iter().zip(operations) {
        values[column] = count;
    }
}

fn read_columns(words: &mut WordIter, values: &mut [u64], columns: &[usize]) {
    for column in columns {
        if let Some(Some(number)) = words.next_number() {
            values[*column] = number;
        }
    }
}

fn add_operations(words: &mut WordIter, sums: &mut [u64; 3], positions: [usize; 3]) {
    // the first number is the count of those that follow
    let Some(Some(_)) = words.next_number() else { return };
    let mut position = 0;
    while let Some(number) = words.next_number() {
        if let (Some(operation), Some(number)) = (positions.iter().position(|p| *p == position), number) {
            let before = if sums[operation] == ABSENT { 0 } else { sums[operation] };
            sums[operation] = before.saturating_add(number);
        }
        position += 1;
    }
}

/// Parses `pool_stats` and adds up its pools: packets that arrived, and threads that were woken for a packet.
pub fn add_pools(text: &[u8], values: &mut [u64]) {
    for line in text_lines(text).filter(|line| !line.starts_with(b"#")) {
        let mut words = WordIter::new(line);
        let mut next = || words.next_number().flatten();
        let (Some(_pool), Some(packets), Some(_queued), Some(woken)) = (next(), next(), next(), next()) else {
            continue;
        };
        for (column, number) in [(PACKETS_COLUMN, packets), (THREADS_WOKEN_COLUMN, woken)] {
            let before = if values[column] == ABSENT { 0 } else { values[column] };
            values[column] = before.saturating_add(number);
        }
    }
}

struct NfsServer {
    file: OpenFile,
    pools: OpenFile,
    tables: [CounterTable; 1],
}

impl NfsServer {
    fn new(roots: &Roots) -> NfsServer {
        NfsServer {
            // a machine without an NFS server has neither file
            file: OpenFile::in_pieces(roots.proc.join("net/rpc/nfsd"), "its NFS server is not seen").without_notes(),
            pools: OpenFile::in_pieces(roots.proc.join("fs/nfsd/pool_stats"), "").without_notes(),
            tables: [CounterTable::new("NFS server", &COLUMNS, CounterReset::WholeRow)],
        }
    }
}

impl CounterSource for NfsServer {
    fn read_tick(&mut self, context: &mut TickContext) {
        let [table] = &mut self.tables;
        let Some(text) = self.file.read(context) else { return table.blank_all() };
        let mut values = [ABSENT; COLUMNS.len()];
        parse_statistics(text, &mut values);
        // the client's module creates the file too; only a server has threads
        if matches!(values[THREADS_COLUMN], 0 | ABSENT) && table.len() == 0 {
            return;
        }
        if let Some(text) = self.pools.read(context) {
            add_pools(text, &mut values);
        }
        table.begin_tick();
        let row = table.row_or_insert("");
        table.row_mut(row).copy_from_slice(&values);
        table.compute_cells(context);
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

#[cfg(test)]
mod tests {
    use crate::live::fake::FakeMachine;

    fn nfsd(threads: u32, calls: u64, reads: u64) -> String {
        format!(
            "rc 0 100 200\nfh 0 0 0 0 0\nio {} 4096\nth {threads} 0 0.000 0.000\nra 0 0\nnet 9 0 9 3\n\
             rpc {calls} 1 0 1 0\nproc3 22 0 1 2 3 4 5 {reads} 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21\n\
             proc4 2 1 {calls}\nproc4ops 40 0 0 0 0 0 50 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 {reads} \
             26 27 28 29 30 31 32 33 34 35 36 37 380 39\n",
            reads * 4096
        )
    }

    #[test]
    fn operations_of_both_versions_and_threads() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files().put_file("proc/net/rpc/nfsd", nfsd(8, 100, 10));
        let pools = |packets: u32, woken: u32| {
            format!(
                "# pool packets-arrived sockets-enqueued threads-woken threads-timedout\n0 {packets} 5 {woken} 0\n\
                 1 10 1 5 0\n"
            )
        };
        machine.put_file("proc/fs/nfsd/pool_stats", pools(100, 40));
        let mut watch = machine.watch_default();
        watch.tick();
        machine.put_file("proc/net/rpc/nfsd", nfsd(8, 160, 15)).put_file("proc/fs/nfsd/pool_stats", pools(160, 55));
        watch.tick_after(1.0);
        let value = |counter: &str| watch.value(&format!("nfs_server.{counter}"), "");
        assert_eq!((value("threads"), value("calls"), value("bad_calls")), (8.0, 60.0, 0.0));
        assert_eq!((value("reads"), value("writes"), value("commits")), (10.0, 0.0, 0.0));
        assert_eq!((value("packets"), value("threads_woken"), value("read_bytes")), (60.0, 15.0, 20_480.0));
    }

    #[test]
    fn bytes_and_operations_wrap_at_32_bits() {
        let machine = FakeMachine::new();
        let before = nfsd(8, 100, 10).replace("io 40960 4096", "io 4294960000 4096");
        machine.put_ordinary_files().put_file("proc/net/rpc/nfsd", before.replace(" 5 10 7 ", " 5 4294967290 7 "));
        let mut watch = machine.watch_default();
        watch.tick();
        let after = nfsd(8, 160, 10).replace("io 40960 4096", "io 2704 4096");
        machine.put_file("proc/net/rpc/nfsd", after.replace(" 5 10 7 ", " 5 4 7 "));
        watch.tick_after(1.0);
        let value = |counter: &str| watch.value(&format!("nfs_server.{counter}"), "");
        assert_eq!((value("read_bytes"), value("reads")), (10_000.0, 10.0));
        assert_eq!((value("write_bytes"), value("writes"), value("calls")), (0.0, 0.0, 60.0));
    }

    #[test]
    fn a_machine_that_serves_nothing_has_no_server() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files().put_file("proc/net/rpc/nfsd", nfsd(0, 0, 0));
        let mut watch = machine.watch_default();
        watch.tick().tick_after(1.0);
        assert!(watch.sampler.schema().instances("nfs_server").is_empty());
        machine.put_file("proc/net/rpc/nfsd", nfsd(4, 0, 0));
        watch.tick_after(1.0);
        assert_eq!(watch.value("nfs_server.threads", ""), 4.0);
    }
}
