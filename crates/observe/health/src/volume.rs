//! The statistics page of Amazon EBS volumes (log page D0h of their NVMe devices), after "Amazon EBS
//! detailed performance statistics" in the EBS user guide: time for which a volume's or the instance's
//! limits delayed requests, and the latencies of requests.

use crate::bytes::read_le;

/// Number of the log page.
pub const LOG_PAGE: u8 = 0xd0;
/// Length of the log page.
pub const LOG_BYTES: usize = 4096;
const MAGIC: u64 = 0x3c23_b510;
const READS_OFFSET: usize = 512;
const WRITES_OFFSET: usize = READS_OFFSET + 8 + MAX_BINS * BIN_BYTES;
const MAX_BINS: usize = 64;
const BIN_BYTES: usize = 24;

/// Model of a volume, as its NVMe device reports it.
pub const EBS_MODEL: &str = "Amazon Elastic Block Store";

/// Number of requests by latency.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeHistogram {
    /// Upper end of each bin, microseconds, and requests in it since the volume was attached.
    pub bins: Vec<(u64, u64)>,
}

impl VolumeHistogram {
    fn parse_bins(log: &[u8], offset: usize) -> Option<VolumeHistogram> {
        let count = usize::try_from(read_le(log, offset, 8)?).ok()?.min(MAX_BINS);
        let bin = |index: usize| {
            let offset = offset + 8 + index * BIN_BYTES;
            Some((read_le(log, offset + 8, 8)?, read_le(log, offset + 16, 4)?))
        };
        Some(VolumeHistogram { bins: (0..count).map_while(bin).collect() })
    }

    /// Returns the requests since an earlier reading. The counts have 32 bits and wrap.
    pub fn difference_since(&self, earlier: &VolumeHistogram) -> VolumeHistogram {
        let earlier_count = |upper: u64| earlier.bins.iter().find(|bin| bin.0 == upper).map_or(0, |bin| bin.1) as u32;
        let added =
            |(upper, count): &(u64, u64)| (*upper, u64::from((*count as u32).wrapping_sub(earlier_count(*upper))));
        VolumeHistogram { bins: self.bins.iter().map(added).collect() }
    }

    /// Returns the upper end of the bin in which this share of the requests (0 to 1) is reached, microseconds; `None`
    /// without requests.
    pub fn percentile_us(&self, share: f64) -> Option<u64> {
        let total: u64 = self.bins.iter().map(|bin| bin.1).sum();
        let needed = (total as f64 * share).ceil() as u64;
        let mut so_far = 0;
        let is_reached = |(_, count): &&(u64, u64)| {
            so_far += count;
            so_far >= needed
        };
        self.bins.iter().filter(|_| total > 0).find(is_reached).map(|bin| bin.0)
    }
}

/// Contents of the statistics page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeLimits {
    /// Time during which requests exceeded the volume's IOPS limit, microseconds.
    pub volume_iops_us: u64,
    /// Time during which requests exceeded the volume's throughput limit, microseconds.
    pub volume_throughput_us: u64,
    /// Time during which requests exceeded the instance's IOPS limit, microseconds.
    pub instance_iops_us: u64,
    /// Time during which requests exceeded the instance's throughput limit, microseconds.
    pub instance_throughput_us: u64,
    /// Number of requests that wait at the volume now.
    pub queue_length: u64,
    /// Latencies of reads.
    pub reads: VolumeHistogram,
    /// Latencies of writes.
    pub writes: VolumeHistogram,
}

/// Parses the page; `None` if it has another format.
pub fn parse_limits(log: &[u8]) -> Option<VolumeLimits> {
    if log.len() < LOG_BYTES || read_le(log, 0, 4)? != MAGIC {
        return None;
    }
    let number = |offset: usize| read_le(log, offset, 8);
    Some(VolumeLimits {
        volume_iops_us: number(56)?,
        volume_throughput_us: number(64)?,
        instance_iops_us: number(72)?,
        instance_throughput_us: number(80)?,
        queue_length: number(88)?,
        reads: VolumeHistogram::parse_bins(log, READS_OFFSET)?,
        writes: VolumeHistogram::parse_bins(log, WRITES_OFFSET)?,
    })
}
