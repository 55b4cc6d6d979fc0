//! fio's options and their treatment. An option that would change the load is refused, unless its
//! value turns it off (`0`, `none` or `false`); one that does not affect the load is noted. Source:
//! fio's HOWTO.

use diskwright_base::user_input::nearest_word;

use Treatment::{Done, Noted, Only, Refused};

/// Treatment of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Supported.
    Done,
    /// Does not affect the load: noted, with the reason.
    Noted(&'static str),
    /// Would change the load: refused, with an alternative.
    Refused(&'static str),
    /// Refused, with the reason, unless it has this value, which is the probe's behavior anyway.
    Only(&'static str, &'static str),
}

const REPORT: Treatment = Noted("it only selects what fio reports; the probe always reports all figures");
const LOGS: Treatment = Noted("the probe writes no such log; its result has a time series of every run");
const MEMORY: Treatment = Noted("the probe allocates and registers its buffers itself");
const FILES: Treatment = Noted("missing files are created at full size, filled, and removed at the end");
const CONTENT: Treatment = Noted("the probe writes incompressible data that never repeat");
const VERIFY: Treatment = Refused("the probe does not verify data; remove the option to measure without it");
const ZONES: Treatment = Refused("the probe does not support zones");
const OTHERS: Treatment = Refused("the probe does not support it; remove the option to measure without it");
const ENGINE: Treatment = Noted("the probe uses an I/O engine of its own");

/// Aliases of options.
const ALIASES: &[(&str, &str)] = &[
    ("readwrite", "rw"),
    ("blocksize", "bs"),
    ("blocksize_range", "bsrange"),
    ("blockalign", "ba"),
    ("timeout", "runtime"),
    ("start_delay", "startdelay"),
    ("wait_for_previous", "stonewall"),
    ("iodepth_batch_submit", "iodepth_batch"),
    ("io_limit", "io_size"),
    ("fadvise", "fadvise_hint"),
    ("blocksize_unaligned", "bs_unaligned"),
];

/// Options with their treatment.
const OPTIONS: &[(&str, Treatment)] = &[
    // options of the load
    ("rw", Done),
    ("rwmixread", Done),
    ("rwmixwrite", Done),
    ("bs", Done),
    ("bsrange", Done),
    ("bssplit", Done),
    ("ba", Done),
    ("kb_base", Done),
    ("size", Done),
    ("filesize", Done),
    ("file_size", Done),
    ("offset", Done),
    ("offset_increment", Done),
    ("io_size", Done),
    ("number_ios", Done),
    ("loops", Done),
    ("iodepth", Done),
    ("ioengine", Done),
    ("direct", Done),
    ("buffered", Done),
    ("numjobs", Done),
    ("runtime", Done),
    ("time_based", Done),
    ("ramp_time", Done),
    ("startdelay", Done),
    ("stonewall", Done),
    ("wait_for", Done),
    ("thinktime", Done),
    ("thinktime_spin", Done),
    ("thinktime_blocks", Done),
    ("rate", Done),
    ("rate_iops", Done),
    ("rate_process", Done),
    ("fsync", Done),
    ("fdatasync", Done),
    ("sync", Done),
    ("random_distribution", Done),
    ("norandommap", Done),
    ("randseed", Done),
    ("filename", Done),
    ("directory", Done),
    ("name", Done),
    ("group_reporting", Done),
    // options with one supported value
    ("nrfiles", Only("1", "a job has one file; write a section for each file")),
    ("percentage_random", Only("100", "a job is either random or sequential; write two jobs")),
    ("rw_sequencer", Only("sequential", "only the default, `sequential`, is supported")),
    ("thinktime_blocks_type", Only("complete", "only the default, `complete`, is supported")),
    ("iodepth_low", Only("1", "the probe sends a request as soon as a slot is free")),
    ("iodepth_batch_complete_min", Only("1", "the probe collects each completion at once")),
    ("zonemode", Only("none", "the probe does not support zones")),
    ("verify", Only("none", "the probe does not verify data; remove the option to measure without it")),
    // options that do not affect the load
    ("description", Noted("the probe does not use it")),
    ("new_group", REPORT),
    ("stats", REPORT),
    ("percentile_list", REPORT),
    ("clat_percentiles", REPORT),
    ("lat_percentiles", REPORT),
    ("slat_percentiles", REPORT),
    ("disable_lat", REPORT),
    ("disable_clat", REPORT),
    ("disable_slat", REPORT),
    ("disable_bw_measurement", REPORT),
    ("unified_rw_reporting", REPORT),
    ("significant_figures", REPORT),
    ("unit_base", REPORT),
    ("gtod_reduce", REPORT),
    ("gtod_cpu", REPORT),
    ("clocksource", REPORT),
    ("bwavgtime", REPORT),
    ("iopsavgtime", REPORT),
    ("ratecycle", REPORT),
    ("disk_util", REPORT),
    ("write_bw_log", LOGS),
    ("write_lat_log", LOGS),
    ("write_iops_log", LOGS),
    ("write_hist_log", LOGS),
    ("write_iolog", LOGS),
    ("log_avg_msec", LOGS),
    ("log_hist_msec", LOGS),
    ("log_hist_coarseness", LOGS),
    ("log_max_value", LOGS),
    ("log_offset", LOGS),
    ("log_unix_epoch", LOGS),
    ("per_job_logs", LOGS),
    ("thread", Noted("every job is a thread")),
    ("threads", Noted("every job is a thread")),
    ("cpus_allowed", Noted("the kernel places threads and memory")),
    ("cpus_allowed_policy", Noted("the kernel places threads and memory")),
    ("cpumask", Noted("the kernel places threads and memory")),
    ("numa_cpu_nodes", Noted("the kernel places threads and memory")),
    ("numa_mem_policy", Noted("the kernel places threads and memory")),
    ("mem", MEMORY),
    ("iomem", MEMORY),
    ("iomem_align", MEMORY),
    ("mem_align", MEMORY),
    ("hugepage-size", MEMORY),
    ("hugepage_size", MEMORY),
    ("lockmem", MEMORY),
    ("fixedbufs", ENGINE),
    ("registerfiles", ENGINE),
    ("nonvectored", ENGINE),
    ("sqthread_poll", ENGINE),
    ("sqthread_poll_cpu", ENGINE),
    ("userspace_reap", ENGINE),
    ("iodepth_batch", ENGINE),
    ("iodepth_batch_complete", ENGINE),
    ("iodepth_batch_complete_max", ENGINE),
    ("io_submit_mode", ENGINE),
    ("file_service_type", Noted("a job has one file")),
    ("openfiles", Noted("a job has one file")),
    ("create_serialize", FILES),
    ("create_fsync", FILES),
    ("create_on_open", FILES),
    ("create_only", OTHERS),
    ("fallocate", FILES),
    ("overwrite", FILES),
    ("unlink", FILES),
    ("unlink_each_loop", OTHERS),
    ("file_append", OTHERS),
    ("filetype", FILES),
    ("allow_file_create", FILES),
    ("allow_mounted_write", Noted("the guard decides what may be written")),
    ("refill_buffers", CONTENT),
    ("scramble_buffers", CONTENT),
    ("randrepeat", Noted("`--seed` sets the random seed")),
    ("allrandrepeat", Noted("`--seed` sets the random seed")),
    ("random_generator", Noted("the probe uses a random generator of its own")),
    ("softrandommap", Noted("each place is drawn independently")),
    ("invalidate", Noted("files that the probe creates are not cached; it leaves cached pages of other files alone")),
    ("fadvise_hint", Noted("the probe gives the kernel no advice")),
    ("continue_on_error", Noted("failed requests are counted; 1000 failures end a run")),
    ("ratemin", Noted("a job that misses its rate continues; the result shows it")),
    ("rate_min", Noted("a job that misses its rate continues; the result shows it")),
    ("rate_iops_min", Noted("a job that misses its rate continues; the result shows it")),
    ("max_latency", Noted("a slow response does not end the run")),
    ("exitall_on_error", Noted("a failure of the I/O engine ends all jobs")),
    // options that would change the load
    ("end_fsync", Refused("the probe does not measure the final sync; use `fsync=` or `fdatasync=`")),
    ("fsync_on_close", Refused("the probe does not measure the final sync; use `fsync=` or `fdatasync=`")),
    ("write_barrier", OTHERS),
    ("sync_file_range", OTHERS),
    ("bs_unaligned", Refused("all sizes must be multiples of the smallest")),
    ("bs_is_seq_rand", Refused("write two jobs, one random and one sequential")),
    ("zero_buffers", Refused("a device may skip zeros; the probe writes only incompressible data")),
    ("buffer_pattern", Refused("the probe writes only incompressible data")),
    ("buffer_compress_percentage", Refused("the probe writes only incompressible data")),
    ("buffer_compress_chunk", Refused("the probe writes only incompressible data")),
    ("dedupe_percentage", Refused("the probe writes only data that never repeat")),
    ("do_verify", VERIFY),
    ("verify_backlog", VERIFY),
    ("verify_fatal", VERIFY),
    ("verify_interval", VERIFY),
    ("verify_pattern", VERIFY),
    ("verify_only", VERIFY),
    ("verify_async", VERIFY),
    ("verify_dump", VERIFY),
    ("verify_offset", VERIFY),
    ("verify_state_save", VERIFY),
    ("verify_state_load", VERIFY),
    ("experimental_verify", VERIFY),
    ("zonesize", ZONES),
    ("zonerange", ZONES),
    ("zoneskip", ZONES),
    ("zonecapacity", ZONES),
    ("read_beyond_wp", ZONES),
    ("max_open_zones", ZONES),
    ("read_iolog", Refused("`probe` does not replay traces")),
    ("replay_redirect", Refused("`probe` does not replay traces")),
    ("fill_device", Refused("use `size=`")),
    ("fill_fs", Refused("use `size=`")),
    ("pre_read", Refused("it warms the cache, and the run then measures the cache")),
    ("thinktime_iotime", OTHERS),
    ("flow", Refused("give each job its own `rate_iops=`")),
    ("flow_sleep", Refused("give each job its own `rate_iops=`")),
    ("flow_id", Refused("give each job its own `rate_iops=`")),
    ("latency_target", Refused("use suite `load`, which searches for the depth within a latency limit")),
    ("latency_window", Refused("use suite `load`, which searches for the depth within a latency limit")),
    ("latency_percentile", Refused("use suite `load`, which searches for the depth within a latency limit")),
    ("latency_run", Refused("use suite `load`, which searches for the depth within a latency limit")),
    ("steadystate", Refused("a run always lasts its full time and reports whether it was steady")),
    ("ss", Refused("a run always lasts its full time and reports whether it was steady")),
    ("steadystate_duration", Refused("a run always lasts its full time and reports whether it was steady")),
    ("ss_dur", Refused("a run always lasts its full time and reports whether it was steady")),
    ("exitall", Refused("give all jobs the same `runtime=`")),
    ("exit_what", Refused("give all jobs the same `runtime=`")),
    ("exec_prerun", Refused("scripts cannot start programs")),
    ("exec_postrun", Refused("scripts cannot start programs")),
    ("ioscheduler", Refused("the probe does not change settings; set the scheduler yourself")),
    ("cgroup", Refused("run diskwright itself in the cgroup")),
    ("cgroup_weight", Refused("run diskwright itself in the cgroup")),
    ("uid", Refused("run diskwright itself as that user")),
    ("gid", Refused("run diskwright itself as that user")),
    ("nice", Refused("start diskwright with `nice`")),
    ("prio", Refused("start diskwright with `ionice`")),
    ("prioclass", Refused("start diskwright with `ionice`")),
    ("cmdprio_percentage", Refused("start diskwright with `ionice`")),
    ("cmdprio_bssplit", Refused("start diskwright with `ionice`")),
    ("hipri", Refused("the probe does not poll for completions")),
    ("hipri_percentage", Refused("the probe does not poll for completions")),
    ("uncached", OTHERS),
    ("nowait", OTHERS),
    ("force_async", OTHERS),
    ("opendir", Refused("a job has one file; write a section for each file")),
    ("filename_format", Refused("give each job its `filename=`")),
    ("offset_align", OTHERS),
    ("lockfile", OTHERS),
    ("profile", OTHERS),
    ("trim_percentage", Refused("the probe does not trim")),
    ("trim_verify_zero", Refused("the probe does not trim")),
    ("trim_backlog", Refused("the probe does not trim")),
    ("job_max_open_zones", ZONES),
    ("cpuload", Refused("the probe does not run jobs that only compute")),
    ("hostname", Refused("the probe measures only files and block devices")),
    ("port", Refused("the probe measures only files and block devices")),
];

/// Returns the canonical name of an option.
pub fn canonical_name(name: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name)
}

/// Finds an option by one of its names; returns its canonical name and its treatment.
pub fn find_option(name: &str) -> Option<(&'static str, Treatment)> {
    let name = canonical_name(name);
    OPTIONS.iter().find(|(known, _)| *known == name).copied()
}

/// Returns the known option whose name is most similar, if any is.
pub fn nearest_option(name: &str) -> Option<&'static str> {
    let aliases = ALIASES.iter().map(|(alias, _)| *alias);
    let names = OPTIONS.iter().map(|(name, _)| *name).chain(aliases);
    nearest_word(name, names)
}

/// Returns all options with their treatment, for documentation.
pub fn all_options() -> impl Iterator<Item = (&'static str, Treatment)> {
    OPTIONS.iter().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_aliases_are_known() {
        let mut names: Vec<_> = OPTIONS.iter().map(|o| o.0).chain(ALIASES.iter().map(|a| a.0)).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(ALIASES.iter().all(|(alias, _)| find_option(alias).is_some()));
    }

    #[test]
    fn suggests_the_nearest_option() {
        assert_eq!(nearest_option("iodpeth"), Some("iodepth"));
        assert_eq!(nearest_option("blocksise"), Some("blocksize"));
        assert_eq!(nearest_option("something_else"), None);
    }
}
