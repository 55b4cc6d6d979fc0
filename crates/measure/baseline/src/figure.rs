//! The list of figures that are measured. The work of each figure is done by a kernel, a closure that does a number of
//! units.

use crate::machine::WorkingSizes;
use crate::work_kernel::{ThreadShare, WorkKernel};
use crate::{BaselineError, compute, crypto, kernel_operations, loopback, memory};

/// Kind of a figure, which decides whether more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// Units per second, over all threads.
    Rate,
    /// Seconds per unit.
    Time,
}

impl FigureKind {
    /// Returns which values are better, as documents write it.
    #[must_use]
    pub fn better_direction(self) -> &'static str {
        match self {
            FigureKind::Rate => "higher",
            FigureKind::Time => "lower",
        }
    }
}

/// Numbers of threads with which a figure is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadCounts {
    /// One thread.
    One,
    /// One thread, and as many as there are processors.
    OneAndAll,
    /// 1, 2, 4 and so on, beyond the number of processors: the scaling curve.
    Scaling,
}

/// Definition of a figure.
pub struct FigureDefinition {
    /// `group.name`; it never changes, because documents store it.
    pub id: &'static str,
    /// Title for people.
    pub title: &'static str,
    /// Unit, as the counters' catalogue names units.
    pub unit: &'static str,
    /// Kind, which decides the direction.
    pub kind: FigureKind,
    /// Numbers of threads.
    pub thread_counts: ThreadCounts,
    /// Version of the work; only results of equal versions are comparable.
    pub method: u32,
    /// Makes the kernel for a thread.
    pub make_kernel: fn(&WorkingSizes, ThreadShare) -> Result<WorkKernel, BaselineError>,
}

impl FigureDefinition {
    /// Returns the part of the id before the point.
    pub fn group_name(&self) -> &'static str {
        self.id.split_once('.').map_or(self.id, |(group, _)| group)
    }
}

/// Groups in the order in which they are shown, with descriptions.
pub const GROUPS: &[(&str, &str)] = &[
    ("processor", "what a processor computes"),
    ("memory", "bandwidth, and latency by working set"),
    ("kernel", "system calls, switches, wake-ups, page faults"),
    ("network", "TCP over the loopback interface"),
];

/// Defines a figure that is a rate.
const fn rate_figure(
    id: &'static str,
    title: &'static str,
    unit: &'static str,
    thread_counts: ThreadCounts,
    make_kernel: fn(&WorkingSizes, ThreadShare) -> Result<WorkKernel, BaselineError>,
) -> FigureDefinition {
    FigureDefinition { id, title, unit, kind: FigureKind::Rate, thread_counts, method: 1, make_kernel }
}

/// Defines a figure that is a time, s, measured with one thread.
const fn time_figure(
    id: &'static str,
    title: &'static str,
    make_kernel: fn(&WorkingSizes, ThreadShare) -> Result<WorkKernel, BaselineError>,
) -> FigureDefinition {
    FigureDefinition {
        id,
        title,
        unit: "s",
        kind: FigureKind::Time,
        thread_counts: ThreadCounts::One,
        method: 1,
        make_kernel,
    }
}

use ThreadCounts::{One, OneAndAll, Scaling};

/// All figures.
pub const FIGURES: &[FigureDefinition] = &[
    rate_figure("processor.integer", "integer rounds", "per_s", Scaling, compute::make_integer_kernel),
    rate_figure(
        "processor.floating",
        "floating-point operations",
        "per_s",
        OneAndAll,
        compute::make_floating_point_kernel,
    ),
    rate_figure("processor.branches", "unpredictable branches", "per_s", OneAndAll, compute::make_branch_kernel),
    rate_figure("processor.sha256", "SHA-256", "bytes_per_s", OneAndAll, crypto::make_sha256_kernel),
    rate_figure("processor.aes256gcm", "AES-256-GCM", "bytes_per_s", OneAndAll, crypto::make_aes256gcm_kernel),
    // method 2: arrays of all threads are four times all caches of the last level, not of the
    // largest cache
    FigureDefinition {
        method: 2,
        ..rate_figure("memory.read", "reading", "bytes_per_s", OneAndAll, memory::make_read_kernel)
    },
    FigureDefinition {
        method: 2,
        ..rate_figure("memory.triad", "STREAM triad", "bytes_per_s", OneAndAll, memory::make_triad_kernel)
    },
    time_figure("memory.latency.16K", "latency in 16 KiB", memory::make_latency_kernel::<{ 16 << 10 }>),
    time_figure("memory.latency.128K", "latency in 128 KiB", memory::make_latency_kernel::<{ 128 << 10 }>),
    time_figure("memory.latency.1M", "latency in 1 MiB", memory::make_latency_kernel::<{ 1 << 20 }>),
    time_figure("memory.latency.8M", "latency in 8 MiB", memory::make_latency_kernel::<{ 8 << 20 }>),
    time_figure("memory.latency.64M", "latency in 64 MiB", memory::make_latency_kernel::<{ 64 << 20 }>),
    time_figure("memory.latency.256M", "latency in 256 MiB", memory::make_latency_kernel::<{ 256 << 20 }>),
    time_figure("kernel.system_call", "system call", kernel_operations::make_system_call_kernel),
    time_figure("kernel.context_switch", "context switch", kernel_operations::make_context_switch_kernel),
    time_figure("kernel.wake", "waking a thread elsewhere", kernel_operations::make_wake_up_kernel),
    FigureDefinition {
        thread_counts: OneAndAll,
        ..time_figure("kernel.page_fault", "page fault", kernel_operations::make_page_fault_kernel)
    },
    rate_figure("network.loopback", "loopback TCP", "bytes_per_s", One, loopback::make_bulk_kernel),
    time_figure("network.round_trip", "loopback round trip", loopback::make_round_trip_kernel),
];

/// Returns the figure with an id.
pub fn find_definition(id: &str) -> Option<&'static FigureDefinition> {
    FIGURES.iter().find(|figure| figure.id == id)
}

/// Returns the figures that a word selects: a group, an id, or the beginning of ids up to a point.
pub fn select_figures(word: &str) -> Vec<&'static FigureDefinition> {
    let is_selected = |figure: &&FigureDefinition| {
        figure.id.strip_prefix(word).is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('.'))
    };
    FIGURES.iter().filter(is_selected).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_figures_by_group_id_or_prefix() {
        let ids = |word: &str| select_figures(word).iter().map(|figure| figure.id).collect::<Vec<_>>();
        assert_eq!(ids("processor.sha256"), ["processor.sha256"]);
        assert_eq!(ids("memory.latency").len(), 6);
        assert!(ids("proc").is_empty() && ids("").is_empty());
        for (group, _) in GROUPS {
            assert!(!ids(group).is_empty(), "{group}");
        }
        assert!(FIGURES.iter().all(|figure| GROUPS.iter().any(|(group, _)| *group == figure.group_name())));
    }
}
