//! fio's options and what is done with each. An option whose effect would be
//! another load is refused unless it says `0`, `none` or the like; one that
//! makes no difference to the load is noted. Source: fio's HOWTO.

/// What is done with an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Done as it says.
    Done,
    /// Makes no other load: noted, and why.
    Noted(&'static str),
    /// Would make another load: refused, and what to do instead.
    Refused(&'static str),
    /// Refused unless it says this, which is what is done anyway.
    Only(&'static str, &'static str),
}

use diskwright_base::words::nearest;

use Treatment::{Done, Noted, Only, Refused};

const REPORT: Treatment = Noted("what is reported: every run has all figures here");
const LOGS: Treatment = Noted("no such log is written; the result has the course of every run");
const MEMORY: Treatment = Noted("buffers are allocated and registered here as the engine needs them");
const FILES: Treatment = Noted("files that are not there are made in full, filled, and removed at the end");
const CONTENT: Treatment = Noted("what is written is incompressible and nowhere the same");
const VERIFY: Treatment = Refused("contents are not verified; take the option out to measure without");
const ZONES: Treatment = Refused("zones are not known here");
const OTHERS: Treatment = Refused("not done here");
const ENGINE: Treatment = Noted("the engine is this program's own");

/// Other names of options.
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

/// Options by name.
const OPTIONS: &[(&str, Treatment)] = &[
    // the load
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
    // only one way of them
    ("nrfiles", Only("1", "a job has one file here; write a section for each")),
    ("percentage_random", Only("100", "mixes of random and sequential in one job are not made; write two jobs")),
    ("rw_sequencer", Only("sequential", "only its default is known")),
    ("thinktime_blocks_type", Only("complete", "only its default is known")),
    ("iodepth_low", Only("1", "a free slot is filled at once here")),
    ("iodepth_batch_complete_min", Only("1", "each answer is taken at once here")),
    ("zonemode", Only("none", "zones are not known here")),
    ("verify", Only("none", "contents are not verified; take the option out to measure without")),
    // no other load
    ("description", Noted("a description")),
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
    ("thread", Noted("every job is a thread here")),
    ("threads", Noted("every job is a thread here")),
    ("cpus_allowed", Noted("threads run where the kernel puts them")),
    ("cpus_allowed_policy", Noted("threads run where the kernel puts them")),
    ("cpumask", Noted("threads run where the kernel puts them")),
    ("numa_cpu_nodes", Noted("threads run where the kernel puts them")),
    ("numa_mem_policy", Noted("threads run where the kernel puts them")),
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
    ("file_service_type", Noted("a job has one file here")),
    ("openfiles", Noted("a job has one file here")),
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
    ("allow_mounted_write", Noted("the guard decides what is written to")),
    ("refill_buffers", CONTENT),
    ("scramble_buffers", CONTENT),
    ("randrepeat", Noted("`--seed` decides what is drawn")),
    ("allrandrepeat", Noted("`--seed` decides what is drawn")),
    ("random_generator", Noted("the generator is this program's own")),
    ("softrandommap", Noted("places are drawn independently")),
    ("invalidate", Noted("a file that was made is not in the cache; another's pages are left as they are")),
    ("fadvise_hint", Noted("the kernel is given no advice")),
    ("continue_on_error", Noted("failed requests are counted, and a thousand of them end a run")),
    ("ratemin", Noted("a job that falls behind goes on; the result shows it")),
    ("rate_min", Noted("a job that falls behind goes on; the result shows it")),
    ("rate_iops_min", Noted("a job that falls behind goes on; the result shows it")),
    ("max_latency", Noted("a slow answer ends nothing here")),
    ("exitall_on_error", Noted("an engine that fails ends all jobs")),
    // another load
    ("end_fsync", Refused("the sync at the end is not measured here; `fsync=` or `fdatasync=` is")),
    ("fsync_on_close", Refused("the sync at the end is not measured here; `fsync=` or `fdatasync=` is")),
    ("write_barrier", OTHERS),
    ("sync_file_range", OTHERS),
    ("bs_unaligned", Refused("sizes are multiples of the least here")),
    ("bs_is_seq_rand", Refused("write two jobs, one random and one sequential")),
    ("zero_buffers", Refused("a device may store zeros for nothing; only incompressible data is written here")),
    ("buffer_pattern", Refused("only incompressible data is written here")),
    ("buffer_compress_percentage", Refused("only incompressible data is written here")),
    ("buffer_compress_chunk", Refused("only incompressible data is written here")),
    ("dedupe_percentage", Refused("only data that nowhere repeats is written here")),
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
    ("read_iolog", Refused("traces are not replayed by `probe`")),
    ("replay_redirect", Refused("traces are not replayed by `probe`")),
    ("fill_device", Refused("name a `size=`")),
    ("fill_fs", Refused("name a `size=`")),
    ("pre_read", Refused("it warms the cache, and a run that begins warm measures something else")),
    ("thinktime_iotime", OTHERS),
    ("flow", Refused("give each job its own `rate_iops=`")),
    ("flow_sleep", Refused("give each job its own `rate_iops=`")),
    ("flow_id", Refused("give each job its own `rate_iops=`")),
    ("latency_target", Refused("suite `load` looks for the depth that a limit allows")),
    ("latency_window", Refused("suite `load` looks for the depth that a limit allows")),
    ("latency_percentile", Refused("suite `load` looks for the depth that a limit allows")),
    ("latency_run", Refused("suite `load` looks for the depth that a limit allows")),
    ("steadystate", Refused("a run lasts its time here, and says itself whether it was steady")),
    ("ss", Refused("a run lasts its time here, and says itself whether it was steady")),
    ("steadystate_duration", Refused("a run lasts its time here, and says itself whether it was steady")),
    ("ss_dur", Refused("a run lasts its time here, and says itself whether it was steady")),
    ("exitall", Refused("give all jobs one `runtime=`")),
    ("exit_what", Refused("give all jobs one `runtime=`")),
    ("exec_prerun", Refused("scripts start no programs here")),
    ("exec_postrun", Refused("scripts start no programs here")),
    ("ioscheduler", Refused("nothing on the machine is set; set the scheduler before")),
    ("cgroup", Refused("run the whole program in the cgroup")),
    ("cgroup_weight", Refused("run the whole program in the cgroup")),
    ("uid", Refused("run the whole program as that user")),
    ("gid", Refused("run the whole program as that user")),
    ("nice", Refused("start the whole program with `nice`")),
    ("prio", Refused("start the whole program with `ionice`")),
    ("prioclass", Refused("start the whole program with `ionice`")),
    ("cmdprio_percentage", Refused("start the whole program with `ionice`")),
    ("cmdprio_bssplit", Refused("start the whole program with `ionice`")),
    ("hipri", Refused("requests are not polled for here")),
    ("hipri_percentage", Refused("requests are not polled for here")),
    ("uncached", OTHERS),
    ("nowait", OTHERS),
    ("force_async", OTHERS),
    ("opendir", Refused("a job has one file here; write a section for each")),
    ("filename_format", Refused("give each job its `filename=`")),
    ("offset_align", OTHERS),
    ("lockfile", OTHERS),
    ("profile", OTHERS),
    ("trim_percentage", Refused("nothing is trimmed here")),
    ("trim_verify_zero", Refused("nothing is trimmed here")),
    ("trim_backlog", Refused("nothing is trimmed here")),
    ("job_max_open_zones", ZONES),
    ("cpuload", Refused("jobs that only compute are not made")),
    ("hostname", Refused("only files and block devices are measured")),
    ("port", Refused("only files and block devices are measured")),
];

/// The name under which an option is kept.
pub fn canonical(name: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name)
}

/// An option by one of its names: its own name, and what is done with it.
pub fn option(name: &str) -> Option<(&'static str, Treatment)> {
    let name = canonical(name);
    OPTIONS.iter().find(|(known, _)| *known == name).copied()
}

/// The known option whose name is most like this one, if any is.
pub fn like(name: &str) -> Option<&'static str> {
    let aliases = ALIASES.iter().map(|(alias, _)| *alias);
    let names = OPTIONS.iter().map(|(name, _)| *name).chain(aliases);
    nearest(name, names)
}

/// All options and what is done with each, for documentation.
pub fn all() -> impl Iterator<Item = (&'static str, Treatment)> {
    OPTIONS.iter().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_there_once_and_aliases_lead_somewhere() {
        let mut names: Vec<_> = OPTIONS.iter().map(|o| o.0).chain(ALIASES.iter().map(|a| a.0)).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(ALIASES.iter().all(|(alias, _)| option(alias).is_some()));
    }

    #[test]
    fn a_slip_of_the_finger_is_told() {
        assert_eq!(like("iodpeth"), Some("iodepth"));
        assert_eq!(like("blocksise"), Some("blocksize"));
        assert_eq!(like("something_else"), None);
    }
}
