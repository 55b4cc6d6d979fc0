//! Health data of drives and cloud volumes, read by ioctl: health, wear, temperature, errors, and the time for which
//! limits delayed a volume. A drive may take seconds to answer, or never answer: a thread queries it, and a tick
//! collects the reports. Each kind of drive has its own interval: an ATA command drains the drive's queue, so ATA
//! drives are queried every ten minutes.

mod query_thread;

use std::hint::black_box;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use diskwright_base::Note;
use diskwright_base::counter_ids::physical_disk;
use diskwright_health::volume::VolumeHistogram;
use diskwright_health::{DriveAccess, DriveHealth, HealthReport, VolumeLimits, access, ata, nvme, scsi, volume};

use crate::live::counter_table::{ABSENT, CounterReset, CounterTable, TableColumn, level_column, total_column};
use crate::live::tick_context::TickContext;
use crate::live::watched_read::{list_folder, watch_read};
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};
use query_thread::{DriveRequest, QueryThread};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "health",
    files: &["/dev/nvmeXnY (admin commands)", "/dev/sdX (SG_IO)"],
    explain: "Health of drives: wear, spare, temperature against its limit, media and link errors, self-tests, bytes \
              written. Limits of cloud volumes.",
    parse_any: |bytes| {
        let mut health = DriveHealth::default();
        nvme::apply_health_log(bytes, &mut health);
        nvme::apply_temperature_limits(bytes, &mut health);
        nvme::apply_self_test(bytes, &mut health);
        ata::apply_smart(bytes, bytes, &mut health);
        ata::apply_statistics(bytes, 512, &mut health);
        scsi::apply_log_page(bytes, &mut health);
        _ = black_box((health, ata::parse_identify(bytes), scsi::parse_sense(bytes), volume::parse_limits(bytes)));
    },
    open: |_: &Roots, _: &SamplerOptions| Some(Box::new(HealthSource::new(diskwright_health::query_health))),
};

/// A column and the field of a drive's health that it shows.
type HealthColumn = (TableColumn, fn(&DriveHealth) -> Option<u64>);

/// Columns of a drive's health. An error count stands in two columns: its increase, and its value.
const HEALTH_COLUMNS: [HealthColumn; 21] = [
    (level_column(physical_disk::FAILING, 1.0), |health| health.failing.map(u64::from)),
    (level_column(physical_disk::WEAR_USED, 0.01), |health| health.wear_percent),
    (level_column(physical_disk::SPARE_LEFT, 0.01), |health| health.spare_percent),
    (level_column(physical_disk::SPARE_LIMIT, 0.01), |health| health.spare_limit_percent),
    (level_column(physical_disk::TEMPERATURE, 1.0), |health| health.temperature_c),
    (level_column(physical_disk::TEMPERATURE_LIMIT, 1.0), |health| health.temperature_limit_c),
    (total_column(physical_disk::HOT_S, 1.0), |health| health.hot_s),
    (total_column(physical_disk::THERMAL_THROTTLES, 1.0), |health| health.thermal_throttles),
    (total_column(physical_disk::MEDIA_ERRORS, 1.0), |health| health.media_errors),
    (level_column(physical_disk::MEDIA_ERRORS_EVER, 1.0), |health| health.media_errors),
    (total_column(physical_disk::LINK_ERRORS, 1.0), |health| health.link_errors),
    (level_column(physical_disk::LINK_ERRORS_EVER, 1.0), |health| health.link_errors),
    (level_column(physical_disk::REALLOCATED_SECTORS, 1.0), |health| health.reallocated),
    (level_column(physical_disk::PENDING_SECTORS, 1.0), |health| health.pending),
    (level_column(physical_disk::SELF_TEST_FAILED, 1.0), |health| health.self_test_failed.map(u64::from)),
    (level_column(physical_disk::SELF_TEST_AGE_S, 3600.0), |health| health.self_test_age_h),
    (level_column(physical_disk::POWER_ON_S, 3600.0), |health| health.power_on_h),
    (total_column(physical_disk::UNSAFE_SHUTDOWNS, 1.0), |health| health.unsafe_shutdowns),
    (total_column(physical_disk::LOAD_CYCLES, 1.0), |health| health.load_cycles),
    (level_column(physical_disk::LIFETIME_WRITTEN_BYTES, 1.0), |health| health.written_bytes),
    (level_column(physical_disk::LIFETIME_READ_BYTES, 1.0), |health| health.read_bytes),
];

/// A column and the quantity of a cloud volume that it shows.
type VolumeColumn = (TableColumn, fn(&VolumeInterval<'_>) -> Option<u64>);

/// Columns of a cloud volume's limits.
const VOLUME_COLUMNS: [VolumeColumn; 7] = [
    (level_column(physical_disk::VOLUME_IOPS_LIMITED, 1e-6), |interval| {
        interval.limited_millionths(|limits| limits.volume_iops_us)
    }),
    (level_column(physical_disk::VOLUME_THROUGHPUT_LIMITED, 1e-6), |interval| {
        interval.limited_millionths(|limits| limits.volume_throughput_us)
    }),
    (level_column(physical_disk::INSTANCE_IOPS_LIMITED, 1e-6), |interval| {
        interval.limited_millionths(|limits| limits.instance_iops_us)
    }),
    (level_column(physical_disk::INSTANCE_THROUGHPUT_LIMITED, 1e-6), |interval| {
        interval.limited_millionths(|limits| limits.instance_throughput_us)
    }),
    (level_column(physical_disk::VOLUME_QUEUE_LENGTH, 1.0), |interval| Some(interval.now.queue_length)),
    (level_column(physical_disk::VOLUME_READ_P99_S, 1e-6), |interval| interval.p99_us(|limits| &limits.reads)),
    (level_column(physical_disk::VOLUME_WRITE_P99_S, 1e-6), |interval| interval.p99_us(|limits| &limits.writes)),
];

/// The table's columns: health, then limits.
const COLUMNS: [TableColumn; HEALTH_COLUMNS.len() + VOLUME_COLUMNS.len()] = {
    let mut columns = [HEALTH_COLUMNS[0].0; HEALTH_COLUMNS.len() + VOLUME_COLUMNS.len()];
    let mut index = 0;
    while index < columns.len() {
        columns[index] = match index.checked_sub(HEALTH_COLUMNS.len()) {
            None => HEALTH_COLUMNS[index].0,
            Some(volume_index) => VOLUME_COLUMNS[volume_index].0,
        };
        index += 1;
    }
    columns
};

/// A volume's statistics and those of the report before it, between which its limits are judged.
struct VolumeInterval<'a> {
    now: &'a VolumeLimits,
    /// `None` for the first report.
    before: Option<&'a VolumeLimits>,
    elapsed_us: u64,
}

impl VolumeInterval<'_> {
    /// Share of the time since the previous report during which a limit was exceeded, in millionths. `total_us` selects
    /// the limit's total.
    fn limited_millionths(&self, total_us: fn(&VolumeLimits) -> u64) -> Option<u64> {
        let limited_us = total_us(self.now).checked_sub(total_us(self.before?))?;
        let millionths = (u128::from(limited_us) * 1_000_000).checked_div(u128::from(self.elapsed_us))?;
        u64::try_from(millionths).ok().map(|share| share.min(1_000_000))
    }

    /// 99th percentile of the latencies since the previous report, microseconds.
    fn p99_us(&self, histogram: fn(&VolumeLimits) -> &VolumeHistogram) -> Option<u64> {
        let before = self.before.filter(|_| self.elapsed_us > 0)?;
        histogram(self.now).difference_since(histogram(before)).percentile_us(0.99)
    }
}

const NS_PER_S: u64 = 1_000_000_000;

/// Interval at which a drive is queried, nanoseconds.
fn query_interval_ns(access: &DriveAccess) -> u64 {
    match access {
        // a volume's counts change with every request, and reading them costs no more than a small read
        DriveAccess::Nvme { is_volume: true } => 10 * NS_PER_S,
        DriveAccess::Nvme { is_volume: false } => 60 * NS_PER_S,
        _ => 600 * NS_PER_S,
    }
}

/// Inode of a drive's folder, which distinguishes it from an earlier drive of the same name: the kernel creates a new
/// folder for each.
fn folder_inode(sys: &Path, name: &str) -> Option<u64> {
    let folder = sys.join("block").join(name);
    watch_read(&folder, || std::fs::metadata(&folder)).ok().map(|folder| folder.ino())
}

/// A disk that is queried, and its last report.
struct DriveRecord {
    name: String,
    /// Inode from [`folder_inode`].
    inode: Option<u64>,
    access: DriveAccess,
    queried_ns: Option<u64>,
    answered_ns: u64,
    /// Values of the last report.
    values: [u64; COLUMNS.len()],
    /// Last known value of each column. Increases while the drive was silent or asleep count when it answers again.
    known: [u64; COLUMNS.len()],
    /// Last statistics of a volume and their time, kept over reports without them.
    limits: Option<(u64, VolumeLimits)>,
    noted_error: String,
}

struct HealthSource {
    drives: Vec<DriveRecord>,
    queries: QueryThread,
    tables: [CounterTable; 1],
}

impl HealthSource {
    fn new(query: fn(&Path, &DriveAccess) -> HealthReport) -> HealthSource {
        HealthSource {
            drives: Vec::new(),
            queries: QueryThread::new(query),
            tables: [CounterTable::new("the health of", &COLUMNS, CounterReset::WholeRow)],
        }
    }

    /// Adds new disks and drops those that are gone.
    fn refresh_drives(&mut self, context: &mut TickContext) {
        let entries = list_folder(&context.roots.sys.join("block"));
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        let sys = &context.roots.sys;
        let is_same =
            |drive: &DriveRecord| names.contains(&drive.name) && folder_inode(sys, &drive.name) == drive.inode;
        if !self.drives.iter().all(is_same) {
            self.drives.retain(is_same);
            // totals of another drive must not count as an increase of this one
            let drives = &self.drives;
            self.tables[0].retain_rows(|name, _| drives.iter().any(|drive| drive.name == name));
        }
        for name in names {
            if self.drives.iter().any(|drive| drive.name == name) {
                continue;
            }
            let Some(access) = access::access_for_disk(&context.roots.sys, &name) else { continue };
            if let DriveAccess::OutOfReach(reason) = access {
                let text = format!("the health of {name} is out of reach: {reason}");
                context.notes.push(context.time_ns, Note::UNSEEN, text);
            }
            self.drives.push(DriveRecord {
                inode: folder_inode(&context.roots.sys, &name),
                name,
                access,
                queried_ns: None,
                answered_ns: 0,
                values: [ABSENT; COLUMNS.len()],
                known: [ABSENT; COLUMNS.len()],
                limits: None,
                noted_error: String::new(),
            });
        }
    }

    /// Passes the drives whose interval has passed to the thread, unless it still waits for an answer.
    fn start_queries(&mut self, context: &TickContext) {
        let now = context.running_ns;
        let is_due = |drive: &&mut DriveRecord| {
            let since = drive.queried_ns.map_or(u64::MAX, |queried_ns| now.saturating_sub(queried_ns));
            !matches!(drive.access, DriveAccess::OutOfReach(_)) && since >= query_interval_ns(&drive.access)
        };
        if self.queries.is_busy() {
            return;
        }
        let due_drives: Vec<&mut DriveRecord> = self.drives.iter_mut().filter(is_due).collect();
        let requests: Vec<DriveRequest> = due_drives
            .into_iter()
            .map(|drive| {
                drive.queried_ns = Some(now);
                let path = context.roots.resolve_path(&format!("/dev/{}", drive.name));
                DriveRequest { name: drive.name.clone(), path, access: drive.access.clone() }
            })
            .collect();
        self.queries.start_round(requests);
    }

    fn collect_reports(&mut self, context: &mut TickContext) {
        while let Some((name, report)) = self.queries.next_report() {
            let Some(drive) = self.drives.iter_mut().find(|drive| drive.name == name) else { continue };
            // another drive may have taken the name: the next scan of devices finds it
            if folder_inode(&context.roots.sys, &name) == drive.inode {
                drive.record_report(report, context);
            }
        }
    }
}

impl DriveRecord {
    fn record_report(&mut self, report: HealthReport, context: &mut TickContext) {
        self.answered_ns = context.running_ns;
        self.values = [ABSENT; COLUMNS.len()];
        let (health_values, volume_values) = self.values.split_at_mut(HEALTH_COLUMNS.len());
        if let Some(health) = &report.health {
            for (value, (_, field)) in health_values.iter_mut().zip(HEALTH_COLUMNS) {
                *value = field(health).unwrap_or(ABSENT);
            }
        }
        if let Some(now) = report.volume {
            let before = self.limits.as_ref();
            let elapsed_us = before.map_or(0, |(then_ns, _)| self.answered_ns.saturating_sub(*then_ns) / 1000);
            let interval = VolumeInterval { now: &now, before: before.map(|(_, limits)| limits), elapsed_us };
            for (value, (_, quantity)) in volume_values.iter_mut().zip(VOLUME_COLUMNS) {
                *value = quantity(&interval).unwrap_or(ABSENT);
            }
            self.limits = Some((self.answered_ns, now));
        }
        if let Some(error) = report.error.filter(|error| *error != self.noted_error) {
            let root = if rustix::process::geteuid().is_root() { "" } else { "; root sees more" };
            let text = format!("the health of {} is not known: {error}{root}", self.name);
            context.notes.push(context.time_ns, Note::UNSEEN, text);
            self.noted_error = error;
        }
    }

    /// Values of the last report; `None` if it is too old, or has none.
    fn current_values(&self, now_ns: u64) -> Option<&[u64; COLUMNS.len()]> {
        let is_fresh = now_ns.saturating_sub(self.answered_ns) <= 3 * query_interval_ns(&self.access);
        (is_fresh && self.values.iter().any(|value| *value != ABSENT)).then_some(&self.values)
    }
}

impl CounterSource for HealthSource {
    fn read_tick(&mut self, context: &mut TickContext) {
        self.collect_reports(context);
        if context.devices_due {
            self.refresh_drives(context);
        }
        if context.is_slow_tick {
            self.start_queries(context);
        }
        let table = &mut self.tables[0];
        if self.drives.is_empty() && table.len() == 0 {
            return;
        }
        table.begin_tick();
        for drive in &mut self.drives {
            if let Some(values) = drive.current_values(context.running_ns).copied() {
                let row = table.row_or_insert(&drive.name);
                table.row_mut(row).copy_from_slice(&values);
                for (column, known) in
                    drive.known.iter_mut().enumerate().filter(|(column, _)| values[*column] != ABSENT)
                {
                    if *known != ABSENT {
                        table.set_previous(row, column, *known);
                    }
                    *known = values[column];
                }
            } else if let Some(row) = table.find_row(&drive.name) {
                // asleep or silent: a gap, but the drive is not gone
                table.row_mut(row);
            }
        }
        table.compute_cells(context);
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

#[cfg(test)]
mod tests;
