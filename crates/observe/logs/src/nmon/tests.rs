//! Whole recordings of Linux and AIX, and broken ones.

use diskwright_base::Note;

use crate::LogOptions;
use crate::sysstat::testing::{ReadOutcome, read_bytes, read_text};

const LINUX: &str = "AAA,progname,nmon\nAAA,host,db1\nAAA,OS,Linux,6.1.0,#1,x86_64\nAAA,date,21-NOV-2026\nAAA,cpus,2\n\
    BBBP,000,/etc/release\nCPU001,CPU 1 db1,User%,Sys%,Wait%,Idle%,Steal%\n\
    CPU_ALL,CPU Total db1,User%,Sys%,Wait%,Idle%,Steal%,Busy,CPUs\n\
    MEM,Memory MB db1,memtotal,hightotal,memfree,swapfree\nPROC,Processes db1,Runnable,Blocked,pswitch,syscall\n\
    NET,Network I/O db1,lo-read-KB/s,eth0-read-KB/s,lo-write-KB/s,eth0-write-KB/s,\n\
    DISKBUSY,Disk %Busy db1,sda,sda1\nDISKREAD,Disk Read KB/s db1,sda,sda1\nDISKREAD1,Disk Read KB/s 1 db1,sdz\n\
    JFSFILE,JFS Filespace %Used db1,/dev,/,/run/user/0\nTOP,%CPU Utilisation\n\
    TOP,+PID,Time,%CPU,%Usr,%Sys,Size,ResSet,Command\n\
    VM,Paging and Virtual Memory,nr_dirty,pgpgin,pgfault\n";

/// A moment of the Linux recording.
fn linux(number: u32, seconds: u32) -> String {
    let t = format!("T{number:04}");
    format!(
        "ZZZZ,{t},07:05:{seconds:02},21-NOV-2026\nCPU001,{t},50.0,10.0,20.0,20.0,0.0\n\
         CPU_ALL,{t},40.0,10.0,20.0,30.0,0.0,,2\nMEM,{t},2048.0,-0.0,1024.0,-0.0\nPROC,{t},3,1,500.5,-1.0\n\
         NET,{t},1.0,2.0,3.0,4.0,\nDISKBUSY,{t},62.5,0.5\nDISKREAD,{t},{number}.0,2.0\nDISKREAD1,{t},7.0\n\
         JFSFILE,{t},0.0,75.0,1.0\nVM,{t},5,8,1000\nTOP,0000042,{t},150.0,100.0,50.0,9,1024,postgres\n"
    )
}

fn recording(moments: u32) -> String {
    LINUX.to_owned() + &(1..=moments).map(|n| linux(n, 10 * n)).collect::<String>()
}

fn expect_linux(read: &ReadOutcome) {
    for (counter, instance, value) in [
        ("processor.user", "cpu0", 0.5),
        ("processor.privileged", "_total", 0.1),
        ("memory.free_bytes", "", 1_073_741_824.0),
        ("system.blocked", "", 1.0),
        ("network.received_bytes_per_s", "eth0", 2048.0),
        ("network.sent_bytes_per_s", "lo", 3072.0),
        ("physical_disk.busy", "sda", 0.625),
        ("logical_disk.busy", "sda1", 0.005),
        ("physical_disk.read_bytes_per_s", "sdz", 7168.0),
        ("logical_disk.free_fraction", "/", 0.25),
        ("paging.faults", "", 1000.0),
        ("paging.block_in_bytes", "", 8192.0),
        ("foreign.CPU_ALL.CPUs", "_total", 2.0),
    ] {
        assert_eq!(read.series_values(counter, instance), [value; 3], "{counter} {instance}");
    }
    assert_eq!(read.series_values("physical_disk.read_bytes_per_s", "sda"), [1024.0, 2048.0, 3072.0]);
    // not counted, and no filesystems
    for (counter, instance) in
        [("system.system_calls_per_s", ""), ("memory.swap_free_bytes", ""), ("logical_disk.free_fraction", "/dev")]
    {
        assert!(read.series_values(counter, instance).iter().all(|v| v.is_nan()), "{counter} {instance}");
    }
    let lengths: Vec<u64> = read.ticks.iter().map(|(_, elapsed_ns)| elapsed_ns / 1_000_000_000).collect();
    assert_eq!(lengths, [0, 10, 10]);
    let tables: Vec<&Note> = read.notes.iter().filter(|n| n.kind == Note::PROCESSES).collect();
    let table = tables[0].read_processes().unwrap();
    let row = &table.rows[0];
    assert_eq!((row.pid, row.name.as_str(), row.processor, row.resident_bytes), (42, "postgres", 1.5, 1_048_576.0));
}

#[test]
fn reads_a_recording_of_linux() {
    let read = read_text(&recording(3));
    expect_linux(&read);
    assert_eq!(read.ticks[0].0, 1_795_244_710_000_000_000);
    assert!(read.notes.iter().any(|n| n.kind == "warning" && n.text().contains("--utc-offset")));
    let summary = read.summary.unwrap();
    assert_eq!((summary.format, summary.host.as_str(), summary.skipped.len()), ("nmon", "db1", 0));
}

#[test]
fn reads_a_sorted_file_alike() {
    let full_text = recording(3);
    let mut lines: Vec<&str> = full_text.lines().collect();
    lines.sort_unstable();
    let sorted = lines.join("\n") + "\n";
    let read = read_text(&sorted);
    expect_linux(&read);
    let summary = read.summary.unwrap();
    assert_eq!((summary.host.as_str(), summary.skipped.len()), ("db1", 0));
    // the host stands above the program there
    let options = LogOptions { host: Some("db1".into()), ..LogOptions::default() };
    assert_eq!(read_bytes(sorted.as_bytes(), &options).ticks.len(), 3);
}

/// Each line of a head comes again in the next one, and the program is not the first.
#[test]
fn reads_concatenated_sorted_files_as_separate_runs() {
    let sorted = |text: &str| {
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        lines.join("\n") + "\n"
    };
    let later = recording(2).replace(",07:05:", ",08:05:");
    let read = read_text(&(sorted(&recording(3)) + &sorted(&later)));
    let lengths: Vec<u64> = read.ticks.iter().map(|(_, elapsed_ns)| elapsed_ns / 1_000_000_000).collect();
    assert_eq!(lengths, [0, 10, 10, 0, 10]);
    assert_eq!(read.summary.unwrap().skipped.len(), 0);
    let two = sorted(&recording(3)) + &sorted(&later.replace("db1", "db2"));
    for (host, ticks) in [(None, 3), (Some("db1"), 3), (Some("db2"), 2)] {
        let options = LogOptions { host: host.map(str::to_owned), ..LogOptions::default() };
        let read = read_bytes(two.as_bytes(), &options);
        assert_eq!(read.ticks.len(), ticks, "{host:?}");
        let summary = read.summary.unwrap();
        assert_eq!(summary.host, host.unwrap_or("db1"));
        let other = if host == Some("db2") { "db1" } else { "db2" };
        assert!(summary.skipped.iter().any(|s| s.reason.contains(other)), "{host:?}: {:?}", summary.skipped);
    }
}

#[test]
fn partitions_whose_disk_ends_the_part_before_are_no_disks() {
    let next = "DISKREAD1,Disk Read KB/s 1 db1,sda2,sdz,sdz1\n";
    let text = recording(2).replace("DISKREAD1,Disk Read KB/s 1 db1,sdz\n", next);
    let read = read_text(&text.replace(",7.0\nJFSFILE", ",7.0,8.0,9.0\nJFSFILE"));
    assert_eq!(read.series_values("logical_disk.read_bytes_per_s", "sda2"), [7168.0; 2]);
    assert_eq!(read.series_values("physical_disk.read_bytes_per_s", "sdz"), [8192.0; 2]);
    assert_eq!(read.series_values("logical_disk.read_bytes_per_s", "sdz1"), [9216.0; 2]);
    assert!(read.series_values("physical_disk.read_bytes_per_s", "sda2").iter().all(|v| v.is_nan()));
}

#[test]
fn reads_other_delimiters_and_decimal_commas() {
    let text = recording(3).replace(".0", ":0").replace(',', ";").replace(":0", ",0");
    let text = text.replace("6,1,0", "6.1.0").replace("07,0", "07:0");
    expect_linux(&read_text(&text.replace("0,625", "0.625")));
}

#[test]
fn reads_a_recording_of_aix() {
    let head = "AAA,progname,topas_nmon\nAAA,host,p750\nAAA,AIX,7.1.4.1\nAAA,cpus,64,16\n\
        MEM,Memory p750,Real Free %,Virtual free %,Real free(MB),Virtual free(MB),Real total(MB),Virtual total(MB)\n\
        PAGE,Paging p750,faults,pgin,pgout,pgsin,pgsout,reclaims,scans,cycles\n\
        LPAR,Logical Partition p750,PhysicalCPU,virtualCPUs\n\
        DISKSERV,Disk Service Time msec/xfer p750,hdisk0,hdisk1\nDISKWAIT,Disk Wait Queue Time msec/xfer p750,hdisk0\n\
        DISKXFER,Disk transfers per second p750,hdisk0,hdisk1\nDISKRIO,Disk IO Reads per second p750,hdisk0,hdisk1\n";
    let moment = |n: u32| {
        format!(
            "ZZZZ,T{n:04},23:59:{:02},21-NOV-2026\nMEM,T{n:04},43.1,98.5,451646.0,129618.0,1048576.0,131584.0\n\
             PAGE,T{n:04},19186.2,17033.4,673.6,1.0,2.0,0.0,5.0,0.0\nLPAR,T{n:04},17.817,64\n\
             DISKSERV,T{n:04},8.0,4.0\nDISKWAIT,T{n:04},2.0\nDISKXFER,T{n:04},100.0,50.0\nDISKRIO,T{n:04},60.0,1.0\n",
            n * 5
        )
    };
    let read = read_text(&(head.to_owned() + &moment(1) + &moment(2)));
    for (counter, instance, value) in [
        ("memory.total_bytes", "", 1_048_576.0 * 1_048_576.0),
        ("paging.swap_out_pages_per_s", "", 2.0),
        ("foreign.LPAR.PhysicalCPU", "", 17.817),
        ("physical_disk.avg_s_per_transfer", "hdisk0", 0.01),
        ("physical_disk.reads_per_s", "hdisk0", 60.0),
    ] {
        assert_eq!(read.series_values(counter, instance), [value; 2], "{counter} {instance}");
    }
    // service alone is no response
    assert!(read.series_values("physical_disk.avg_s_per_transfer", "hdisk1").iter().all(|v| v.is_nan()));
}

#[test]
fn reads_disks_that_come_later_and_skips_other_machines() {
    let later = "DISKBUSY,Disk %Busy db1,sda,sdb,sda1\nZZZZ,T0004,07:06:00,21-NOV-2026\nDISKBUSY,T0004,1.0,2.0,3.0\n";
    let read = read_text(&(recording(3) + later));
    assert_eq!(read.series_values("physical_disk.busy", "sdb")[3], 0.02);
    assert_eq!(read.series_values("physical_disk.busy", "sda")[3], 0.01);
    let two = recording(2) + &recording(1).replace("db1", "db2").replace("07:05", "08:05");
    assert_eq!(read_text(&two).ticks.len(), 2);
    let options = LogOptions { host: Some("db2".into()), ..LogOptions::default() };
    assert_eq!(read_bytes(two.as_bytes(), &options).ticks.len(), 1);
}

#[test]
fn ticks_without_a_date_pass_midnight() {
    let text = recording(3).replace(",21-NOV-2026\nCPU", "\nCPU").replace("07:05:30", "00:00:01");
    let text = text.replace("07:05:10", "23:59:58").replace("07:05:20", "23:59:59");
    let lengths: Vec<u64> = read_text(&text).ticks.iter().map(|(_, elapsed_ns)| elapsed_ns / 1_000_000_000).collect();
    assert_eq!(lengths, [0, 1, 2]);
}

#[test]
fn reports_broken_lines_and_keeps_the_rest() {
    let good = recording(2);
    for (wrong, because) in [
        ("DISKBUSY,T0002,1.0\n", "fewer cells"),
        ("DISKBUSY,T0002,much,1.0\n", "text where a number"),
        ("DISKBUSY,T0002,3035110221,1.0\n", "an impossible value: physical_disk.busy sda"),
        ("CPU_ALL,T0002,0.0,0.0,0.0,0.0,0.0,,2\n", "all zero"),
        ("DISKNEW,T0002,1.0\n", "without headings"),
        ("DISKBUSY,T0009,1.0,2.0\n", "line (ZZZZ) is missing"),
        ("ZZZZ,T0003,25:61:00,21-NOV-2026\n", "without a readable time"),
        ("ZZZZ,T0003,07:05:01,21-NOV-2026\nDISKBUSY,T0003,1.0,2.0\n", "time goes backwards"),
        ("TOP,0000043,T0002,x\n", "process that does not fit"),
        ("DISKBUSY,T0002,1.0,2", "incomplete"),
        ("rubbish, here\n", "not a line of nmon"),
        ("rubbish\n", "without cells"),
    ] {
        let read = read_text(&(good.clone() + wrong));
        assert_eq!(read.series_values("physical_disk.busy", "sda")[0], 0.625, "{wrong}");
        let skipped = read.summary.unwrap().skipped;
        assert!(skipped.iter().any(|s| s.reason.contains(because)), "{wrong}: {skipped:?}");
    }
}

#[test]
fn a_recording_cut_anywhere_yields_all_complete_ticks() {
    let full_text = recording(2);
    for cut in crate::sweep::sweep(full_text.len(), 120) {
        let read = read_text(&full_text[..cut]);
        for value in read.series_values("physical_disk.busy", "sda").iter().filter(|v| !v.is_nan()) {
            assert_eq!(*value, 0.625, "cut at {cut}");
        }
    }
}

#[test]
fn a_change_to_or_from_summer_time_is_no_gap_and_loses_nothing() {
    for (day, hours) in [("25-OCT-2026", ["02:59", "02:00"]), ("29-MAR-2026", ["01:59", "03:00"])] {
        let moments = [(hours[0], 30), (hours[0], 40), (hours[0], 50), (hours[1], 0), (hours[1], 10)];
        let moment = |(number, (hour, second)): (u32, (&str, u32))| {
            let right = format!("{hour}:{second:02},{day}");
            linux(number, second).replace(&format!("07:05:{second:02},21-NOV-2026"), &right)
        };
        let read = read_text(&(LINUX.to_owned() + &(1..).zip(moments).map(moment).collect::<String>()));
        let lengths: Vec<u64> = read.ticks.iter().map(|(_, elapsed_ns)| elapsed_ns / 1_000_000_000).collect();
        assert_eq!(lengths, [0, 10, 10, 10, 10], "{day}");
        let note_count = |kind: &str| read.notes.iter().filter(|note| note.kind == kind).count();
        assert_eq!((note_count(Note::CLOCK), note_count(Note::GAP)), (1, 0), "{day}");
    }
}

#[test]
fn headings_without_a_description_shift_no_column() {
    let text = recording(3)
        .replace("DISKBUSY,Disk %Busy db1,", "DISKBUSY,")
        .replace("DISKREAD,Disk Read KB/s db1,", "DISKREAD,")
        .replace("CPU001,CPU 1 db1,", "CPU001,");
    assert_ne!(text, recording(3), "a description was removed");
    expect_linux(&read_text(&text));
}
