use diskwright_base::Note;

use super::*;
use crate::live::fake::FakeMachine;

/// The kernel's 27 numbers of events, with 3 delays.
const EVENTS: &str = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 3 0 0";

fn mount(export: &str, point: &str, age: u32, transports: &str, operations: &str) -> String {
    format!(
        "device {export} mounted on {point} with fstype nfs4 statvers=1.1\n\
         \topts:\trw,vers=4.2,rsize=1048576,port=0,proto=tcp,clientaddr=192.0.2.7,addr=192.0.2.1,local_lock=none\n\
         \tage:\t{age}\n\timpl_id:\tname='',domain='',date='0,0'\n\tcaps:\tcaps=0x3ffb7fff,wtmult=512,dtsize=1048576\n\
         \tnfsv4:\tbm0=0xfdffbfff,bm1=0x40f9be3e\n\tsec:\tflavor=1,pseudoflavor=1\n\tevents:\t{EVENTS}\n\
         \tbytes:\t100 200 30 40 5000 6000 7 8\n\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n{transports}\
         \tper-op statistics\n{operations}\n"
    )
}

const TCP: &str = "\txprt:\ttcp 733 1 1 0 0 100 98 1 150 50 20 2 3\n";
const TWO: &str = "\txprt:\ttcp 733 1 1 0 0 100 98 1 150 50 20 2 3\n\txprt:\ttcp 902 1 2 0 7 60 60 0 70 10 12 0 0\n";
const NINE: &str = "\t        NULL: 1 1 0 44 24 0 0 0 0\n\t        READ: 10 12 1 1840 41000 300 850 1200 0\n\
                    \t       WRITE: 5 5 0 21000 600 10 50 65 1\n\t      COMMIT: 2 2 0 200 150 1 400 402 0\n\
                    \t     GETATTR: 30 30 0 3000 6000 2 60 66 0\n\t    READ_PLUS: 1 1 0 100 200 1 2 3 0\n";
const EIGHT: &str = "\t     GETATTR: 30 30 0 3000 6000 2 60 66\n\t        READ: 10 12 1 1840 41000 300 850 1200\n";

fn mountinfo(mounts: &[(&str, &str, &str, &str)]) -> String {
    let line = |(minor, point, kind, source): &(&str, &str, &str, &str)| {
        format!("9 1 0:{minor} / {point} rw - {kind} {source} rw\n")
    };
    format!("1 0 8:0 / / rw - ext4 /dev/sda rw\n{}", mounts.iter().map(line).collect::<String>())
}

#[test]
fn operations_by_class_bytes_and_transports() {
    let text = format!(
        "device /dev/sda mounted on / with fstype ext4\nno device mounted on /proc with fstype proc\n{}\
         device tmpfs mounted on /run with fstype tmpfs\n",
        mount("srv:/a\\040b", "/mnt/a\\040b", 60, TWO, NINE)
    );
    let mut found = Vec::new();
    mountstats::parse_mounts(text.as_bytes(), |mount| found.push(*mount));
    assert_eq!(found.len(), 1);
    let [read, write, commit, metadata] = &found[0].operations;
    assert_eq!((read.operations, read.transmissions, read.major_timeouts), (11, 13, 1));
    assert_eq!((read.queue_ms, read.round_trip_ms, read.execution_ms), (301, 852, 1203));
    assert_eq!((write.operations, write.sent_bytes, write.errors), (5, 21_000, 1));
    assert_eq!((commit.operations, commit.round_trip_ms), (2, 400));
    assert_eq!((metadata.operations, metadata.received_bytes), (31, 6024));
    let transports = found[0].transports;
    assert_eq!((transports.count, transports.sends, transports.replies, transports.backlog), (2, 160, 158, 60));
    assert_eq!((transports.max_slots, transports.connects, &transports.ports[..3]), (Some(32), 3, &[733, 902, 0][..]));
    assert_eq!((found[0].age_s, found[0].delays, found[0].mount_point), (Some(60), Some(3), &b"/mnt/a\\040b"[..]));
    assert_eq!(found[0].bytes, Some([100, 200, 30, 40, 5000, 6000]));
    assert_eq!(tcp_connections::server_address(found[0].options), Some(([192, 0, 2, 1], 2049).into()));
}

#[test]
fn transports_of_every_protocol_and_age() {
    let read = |transports: &str| {
        let mut found = mountstats::TransportSums::default();
        mountstats::parse_mounts(mount("s:/", "/m", 1, transports, "").as_bytes(), |mount| found = mount.transports);
        (found.count, found.sends, found.replies, found.backlog, found.max_slots, found.connects)
    };
    assert_eq!(read("\txprt:\tudp 900 1 55 54 0 60 7 2 0 0\n"), (1, 55, 54, 7, Some(2), 0));
    assert_eq!(read("\txprt:\ttcp 900 1 1 0 -1 55 54 0 60 7\n"), (1, 55, 54, 7, None, 1));
    assert_eq!(read("\txprt:\tlocal 1 2 0 0 55 54 0 60 7 2 0 0\n"), (1, 55, 54, 7, Some(2), 2));
    let rdma = "\txprt:\trdma 0 0 1 0 24 55 54 0 60 7 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41\n";
    assert_eq!(read(rdma), (1, 55, 54, 7, None, 1));
    assert_eq!(read("\txprt:\tnew 1 2 3\n\txprt:\ttcp 1 2\n"), (0, 0, 0, 0, None, 0));
}

#[test]
fn eight_numbers_an_operation_are_those_of_older_kernels() {
    let mut found = [mountstats::OperationSums::default(); 4];
    mountstats::parse_mounts(mount("s:/", "/m", 1, TCP, EIGHT).as_bytes(), |mount| found = mount.operations);
    assert_eq!((found[0].operations, found[0].round_trip_ms, found[3].operations), (10, 850, 30));
}

#[test]
fn a_mounts_sums_become_cells_and_restart_with_the_mount() {
    let machine = FakeMachine::new();
    machine.put_ordinary_files().put_file("proc/self/mountinfo", mountinfo(&[("50", "/mnt", "nfs4", "srv:/a")]));
    machine.put_file("proc/self/mountstats", mount("srv:/a", "/mnt", 60, TCP, NINE));
    let mut watch = machine.watch_default();
    watch.tick();
    assert!(watch.value("network_filesystem.reads", "/mnt").is_nan());
    assert_eq!(watch.value("network_filesystem.slots_used", "/mnt"), 20.0);
    let later = NINE.replace("READ: 10 12 1 1840 41000 300 850 1200", "READ: 20 23 1 3680 82000 500 1850 2400");
    let sent = TCP.replace("100 98 1 150 50", "115 109 1 190 80");
    let bytes = mount("srv:/a", "/mnt", 61, &sent, &later).replace("5000 6000", "45960 6000");
    machine.put_file("proc/self/mountstats", &bytes);
    watch.tick_after(1.0);
    let value = |watch: &crate::live::fake::FakeWatch, counter: &str| {
        watch.value(&format!("network_filesystem.{counter}"), "/mnt")
    };
    assert_eq!((value(&watch, "reads"), value(&watch, "read_bytes")), (10.0, 40_960.0));
    assert!((value(&watch, "read_round_trip_s") - 1.0).abs() < 1e-9);
    assert!((value(&watch, "read_queue_s") - 0.2).abs() < 1e-9);
    assert!((value(&watch, "read_execution_s") - 1.2).abs() < 1e-9);
    assert_eq!((value(&watch, "read_retransmissions"), value(&watch, "backlog")), (1.0, 30.0));
    assert_eq!((value(&watch, "sends"), value(&watch, "replies"), value(&watch, "unanswered")), (15.0, 11.0, 4.0));
    assert_eq!((value(&watch, "metadata_operations"), value(&watch, "application_read_bytes")), (0.0, 0.0));
    // mounted again, with higher sums than before
    machine.put_file("proc/self/mountstats", bytes.replace("age:\t61", "age:\t2").replace("READ: 20", "READ: 90"));
    watch.tick_after(1.0);
    assert!(value(&watch, "reads").is_nan());
    assert!(watch.notes_of_kind(Note::GAP).is_empty());
    machine
        .put_file("proc/self/mountinfo", mountinfo(&[]))
        .put_file("proc/self/mountstats", "device none mounted on / with fstype ext4\n");
    watch.tick_after(10.0);
    assert!(watch.find_value("network_filesystem.reads", "/mnt").is_none());
}

#[test]
fn an_export_that_is_mounted_twice_counts_once() {
    let machine = FakeMachine::new();
    let mounts =
        [("50", "/one", "nfs4", "srv:/a"), ("50", "/two", "nfs4", "srv:/a"), ("51", "/apart", "nfs4", "srv:/b")];
    machine.put_ordinary_files().put_file("proc/self/mountinfo", mountinfo(&mounts));
    let block = |export: &str, point: &str| mount(export, point, 60, TCP, NINE);
    let text = [block("srv:/a", "/one"), block("srv:/a", "/two"), block("srv:/b", "/apart")].concat();
    machine.put_file("proc/self/mountstats", text);
    let mut watch = machine.watch_default();
    watch.tick().tick_after(1.0);
    assert_eq!(watch.sampler.schema().instances("network_filesystem"), ["/one", "/apart"]);
    assert!(watch.has_note(Note::UNSEEN, "srv:/a is mounted at /one and at /two with the same statistics"));
}

#[test]
fn shares_of_smb_and_requests_that_wait_for_fuse() {
    let machine = FakeMachine::new();
    let mounts =
        [("60", "/smb", "cifs", "//NAS/data/sub"), ("61", "/ssh", "fuse.sshfs", "host:/"), ("62", "/x", "fuse", "x")];
    machine.put_ordinary_files().put_file("proc/self/mountinfo", mountinfo(&mounts));
    let stats = |reads: u32, bytes: u32| {
        format!(
            "Resources in use\nCIFS Session: 1\nShare (unique mount targets): 2\nOperations (MIDs): 1\n\n\
             0 session 0 share reconnects\nTotal vfs operations: 16 maximum at one time: 2\n\n\
             1) \\\\nas\\IPC$\nSMBs: 1\n2) \\\\nas\\data\tDISCONNECTED \nSMBs: {} \n\
             Bytes read: {bytes}  Bytes written: 40\nOpen files: 1 total (local), 2 open on server\n\
             TreeConnects: 1 total 0 failed\nFlushes: 2 total 0 failed\nReads: {reads} total 0 failed\n\
             Writes: 3 total 1 failed\n",
            reads + 20
        )
    };
    machine.put_file("proc/fs/cifs/Stats", stats(10, 4096)).put_file("sys/fs/fuse/connections/61/waiting", "7\n");
    let mut watch = machine.watch_default();
    watch.tick();
    machine.put_file("proc/fs/cifs/Stats", stats(16, 8192));
    watch.tick_after(1.0);
    assert_eq!(watch.value("network_filesystem.reads", "/smb"), 6.0);
    assert_eq!(watch.value("network_filesystem.read_bytes", "/smb"), 4096.0);
    assert_eq!(watch.value("network_filesystem.metadata_operations", "/smb"), 0.0);
    assert!(watch.find_value("network_filesystem.read_round_trip_s", "/smb").is_none(), "not reported by this kernel");
    assert_eq!(watch.value("network_filesystem.waiting", "/ssh"), 7.0);
    assert!(watch.find_value("network_filesystem.waiting", "/x").is_none());
    assert!(watch.has_note(Note::UNSEEN, "mount -t fusectl"));
}

/// Two shares that differ behind a blank, and one that two users' sessions list each.
#[test]
fn shares_of_smb_have_blanks_and_several_sessions() {
    let machine = FakeMachine::new();
    let mounts = [("60", "/one", "cifs", "//nas/my\\040data"), ("61", "/two", "cifs", "//nas/my\\040mail")];
    machine.put_ordinary_files().put_file("proc/self/mountinfo", mountinfo(&mounts));
    let stats = |reads: [u32; 3]| {
        let share = |(name, reads): (&str, u32)| {
            format!("1) \\\\nas\\{name}\nSMBs: {reads}\nFlushes: 0 total 0 failed\nReads: {reads} total 0 failed\n")
        };
        ["my data", "my mail", "my data\tDISCONNECTED "].into_iter().zip(reads).map(share).collect::<String>()
    };
    machine.put_file("proc/fs/cifs/Stats", stats([10, 100, 1000]));
    let mut watch = machine.watch_default();
    watch.tick();
    machine.put_file("proc/fs/cifs/Stats", stats([12, 103, 1005]));
    watch.tick_after(1.0);
    assert_eq!(watch.value("network_filesystem.reads", "/one"), 7.0);
    assert_eq!(watch.value("network_filesystem.reads", "/two"), 3.0);
    assert_eq!(watch.sampler.schema().instances("network_filesystem"), ["/one", "/two"]);
}

#[test]
fn bytes_of_smb_1_follow_its_operations() {
    let text = b"1) \\\\nas\\old\nSMBs: 40 Oplocks breaks: 0\nReads:  10 Bytes: 4096\nWrites: 3 Bytes: 512\n\
                 Flushes: 1\nLocks: 0 HardLinks: 0 Symlinks: 0\n";
    let mut found = Vec::new();
    smb::parse_shares(text, |share| found.push(*share));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].reads, found[0].read_bytes), (Some(10), Some(4096)));
    assert_eq!((found[0].writes, found[0].write_bytes), (Some(3), Some(512)));
    assert_eq!((found[0].flushes, found[0].metadata_operations()), (Some(1), Some(26)));
}

/// Operations have 32 bits and a sign: after 2147483647 comes -2147483648, and after -1 comes 0.
#[test]
fn operations_of_smb_wrap_and_are_printed_with_a_sign() {
    let machine = FakeMachine::new();
    machine.put_ordinary_files().put_file("proc/self/mountinfo", mountinfo(&[("60", "/smb", "cifs", "//nas/data")]));
    let stats = |smbs: i32, reads: i32| {
        format!(
            "1) \\\\nas\\data\nSMBs: {smbs}\nBytes read: 40  Bytes written: 40\nFlushes: 0 total 0 failed\n\
             Reads: {reads} total 0 failed\nWrites: 3 total 0 failed\n"
        )
    };
    let mut watch = machine.watch_default();
    let mut value = |smbs: i32, reads: i32| {
        machine.put_file("proc/fs/cifs/Stats", stats(smbs, reads));
        watch.tick_after(1.0);
        let of = |counter: &str| watch.value(&format!("network_filesystem.{counter}"), "/smb");
        (of("reads"), of("metadata_operations"))
    };
    value(-100, i32::MAX);
    assert_eq!(value(-95, i32::MIN), (1.0, 4.0));
    assert_eq!(value(9, i32::MIN + 4), (4.0, 100.0));
    value(20, -2);
    assert_eq!(value(26, 1), (3.0, 3.0));
}

#[test]
fn a_machine_without_network_mounts_has_no_series_and_no_notes() {
    let machine = FakeMachine::new();
    machine.put_ordinary_files();
    let mut watch = machine.watch_default();
    watch.tick().tick_after(10.0);
    assert!(watch.sampler.schema().instances("network_filesystem").is_empty());
    assert!(!watch.has_note(Note::UNSEEN, "cifs"));
}

#[test]
fn tcp_reports_the_round_trip_of_a_connection() {
    let Some(diagnosis) = SocketDiagnosis::open() else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let mut client = std::net::TcpStream::connect(server).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    let mut bytes = [0; 4];
    std::io::Write::write_all(&mut client, b"ping").unwrap();
    std::io::Read::read_exact(&mut peer, &mut bytes).unwrap();
    std::io::Write::write_all(&mut peer, b"pong").unwrap();
    std::io::Read::read_exact(&mut client, &mut bytes).unwrap();
    let port = client.local_addr().unwrap().port();
    let found = diagnosis.query_connection(port, ServerRoute::look_up(server).unwrap());
    // a kernel may lack the module; one that answers, answers rightly
    if let Some(found) = found {
        assert!((1..1_000_000).contains(&found.round_trip_us), "{found:?}");
        // NFS 4 mounts show no port: this is the only connection to the server
        let all =
            diagnosis.query_all_connections(ServerRoute::look_up(server).unwrap()).expect("it was found by its port");
        assert!((1..1_000_000).contains(&all.round_trip_us), "{all:?}");
    }
    assert_eq!(diagnosis.query_all_connections(ServerRoute::look_up(([127, 0, 0, 1], 1).into()).unwrap()), None);
    assert_eq!(diagnosis.query_connection(port, ServerRoute::look_up(([127, 0, 0, 1], 1).into()).unwrap()), None);
}

/// The kernel's answer as linux/inet_diag.h and linux/tcp.h lay it out, with 25 ms and three segments sent again.
#[test]
fn an_answer_is_read_by_its_published_layout() {
    let mut bytes = vec![0u8; 16 + 72];
    bytes[4..6].copy_from_slice(&20u16.to_ne_bytes());
    // an attribute of another kind comes first
    bytes.extend([5u16.to_ne_bytes(), 9u16.to_ne_bytes()].concat());
    bytes.extend([1, 0, 0, 0]);
    bytes.extend([(4u16 + 160).to_ne_bytes(), 2u16.to_ne_bytes()].concat());
    let mut info = vec![0u8; 160];
    info[100..104].copy_from_slice(&3u32.to_ne_bytes());
    info[148..152].copy_from_slice(&25_000u32.to_ne_bytes());
    bytes.extend(&info);
    let expected = tcp_connections::TcpConnection { round_trip_us: 25_000, retransmissions: 3 };
    assert_eq!(tcp_connections::decode_message(&bytes), Some(expected));
    for cut in 0..bytes.len() {
        let _ = tcp_connections::decode_message(&bytes[..cut]);
    }
    // an older kernel's structure ends before the smallest round trip
    bytes[88 + 8..88 + 10].copy_from_slice(&(4u16 + 104).to_ne_bytes());
    assert_eq!(tcp_connections::decode_message(&bytes), None);
}

/// Operations that were given up before they were sent are counted without a transmission: it looked as if the sums had
/// restarted, and the whole mount had a gap just while its server was in trouble.
#[test]
fn operations_that_were_never_sent_are_not_a_reset() {
    let machine = FakeMachine::new();
    machine.put_ordinary_files().put_file("proc/self/mountinfo", mountinfo(&[("50", "/mnt", "nfs4", "srv:/a")]));
    machine.put_file("proc/self/mountstats", mount("srv:/a", "/mnt", 60, TCP, NINE));
    let mut watch = machine.watch_default();
    watch.tick();
    let value = |watch: &crate::live::fake::FakeWatch, counter: &str| {
        watch.value(&format!("network_filesystem.{counter}"), "/mnt")
    };
    // 12 were sent of 10; then 20 ended and 20 were sent: fewer are left over than before
    let given_up = NINE.replace("READ: 10 12 1", "READ: 20 20 1");
    machine.put_file("proc/self/mountstats", mount("srv:/a", "/mnt", 61, TCP, &given_up));
    watch.tick_after(1.0);
    assert_eq!((value(&watch, "reads"), value(&watch, "read_retransmissions")), (10.0, 0.0));
    // and three more are sent again
    let again = NINE.replace("READ: 10 12 1", "READ: 25 28 1");
    machine.put_file("proc/self/mountstats", mount("srv:/a", "/mnt", 62, TCP, &again));
    watch.tick_after(1.0);
    assert_eq!((value(&watch, "reads"), value(&watch, "read_retransmissions")), (5.0, 3.0));
    // sums of 32 bits that wrap, and a line that is no numbers, are a gap and no rate
    for broken in [NINE.replace("READ: 10 12 1", "READ: 3 4 1"), NINE.replace("READ: 10 12 1", "READ: x y z")] {
        machine.put_file("proc/self/mountstats", mount("srv:/a", "/mnt", 63, TCP, &broken));
        watch.tick_after(1.0);
        assert!(value(&watch, "reads").is_nan() && value(&watch, "writes").is_nan());
    }
}

// The files of Ceph clients below have the layout of net/ceph/debugfs.c and fs/ceph/debugfs.c; ids and numbers are
// invented.

const CEPH_CLUSTER: &str = "0c93a60d-5645-4c46-8568-4c8f63db4c7f";

/// `osdc` of Linux 4.7 and later: requests, then watches and pauses, which wait for nothing.
const OSDC: &str = "REQUESTS 3 homeless 0\n\
    41\tosd3\t2.5e2a1b3c\t2.1c\t[3,1,0]/3\t[3,1,0]/3\te57\t10000000001.00000002\t0x400024\t1\tread\n\
    42\tosd3\t2.5e2a1b3d\t2.1d\t[3,1,0]/3\t[3,1,0]/3\te57\t10000000001.00000003\t0x400024\t1\tread\n\
    47\tosd1\t2.5e2a1b3e\t2.1e\t[1,0,3]/1\t[1,0,3]/1\te57\t10000000002.00000000\t0x400024\t1\twrite\n\
    LINGER REQUESTS\n18446462598732840961\tosd0\t3.c0\t3.0\t[0]/0\t[0]/0\te57\trbd_header.1\t0x20\t0\tWC/0\n\
    BACKOFFS\nosd2\t2.0s0\t9\t[a,b)\n";

const MDSC: &str = "12\tmds0\tgetattr\t #10000000000\n13\tmds0\tcreate\t(unsafe) #10000000000/new (new)\n\
    14\t(no session)\tlookup\t #1/home (home)\n";

fn ceph_metrics(reads: u64, writes: u64, metadata: u64) -> [String; 2] {
    let latency = format!(
        "item          total       avg_lat(us)     min_lat(us)     max_lat(us)     stdev(us)\n\
         -----------------------------------------------------------------------------------\n\
         read          {reads}          32000           4000            196000          560\n\
         write         {writes}         588000          28000           4812000         36673\n\
         metadata      {metadata}        116000          2000            707000          8282\n\
         copyfrom      0           0               0               0               0\n"
    );
    let size = format!(
        "item          total       avg_sz(bytes)   min_sz(bytes)   max_sz(bytes)  total_sz(bytes)\n\
         ----------------------------------------------------------------------------------------\n\
         read          {reads}        4096            4096            4096            {}\n\
         write         {writes}        8192            8192            8192            {}\n",
        reads * 4096,
        writes * 8192
    );
    [latency, size]
}

#[test]
fn requests_of_ceph_are_counted_by_server() {
    let mut waiting = ceph::WaitingRequests::default();
    ceph::add_osd_requests(OSDC.as_bytes(), &mut waiting);
    assert_eq!((waiting.count(), waiting.oldest, waiting.by_server["osd3"]), (3, Some(41), 2));
    ceph::add_mds_requests(MDSC.as_bytes(), &mut waiting);
    assert_eq!((waiting.count(), waiting.by_server["mds0"], waiting.by_server["no mds"]), (5, 1, 1));
    // before Linux 4.7 the list had no heading
    let mut old = ceph::WaitingRequests::default();
    ceph::add_osd_requests(b"9\tosd-1\t1.6\tfoo\t\tread\n", &mut old);
    assert_eq!((old.count(), old.by_server["osd-1"]), (1, 1));
    let mut none = ceph::WaitingRequests::default();
    ceph::add_osd_requests(b"REQUESTS 0 homeless 0\nLINGER REQUESTS\nBACKOFFS\n", &mut none);
    assert_eq!(none, ceph::WaitingRequests::default());
}

#[test]
fn totals_of_ceph_are_read_from_one_file_or_a_folder() {
    let [latency, size] = ceph_metrics(798, 2394, 7);
    let expected = ceph::CephTotals {
        reads: Some(798),
        read_bytes: Some(798 * 4096),
        writes: Some(2394),
        write_bytes: Some(2394 * 8192),
        metadata: Some(7),
    };
    let mut totals = ceph::CephTotals::default();
    [&latency, &size].into_iter().for_each(|text| ceph::add_totals(text.as_bytes(), &mut totals));
    assert_eq!(totals, expected);
    // Linux 5.7 to 5.15: one file with all tables, other ones among them
    let caps = "item          total           miss            hit\n\
                -------------------------------------------------\n\
                d_lease       2               0               0\n\
                caps          2               14              546500\n";
    let mut totals = ceph::CephTotals::default();
    ceph::add_totals(format!("{latency}\n{size}\n{caps}").as_bytes(), &mut totals);
    assert_eq!(totals, expected);
}

fn ceph_machine(source: &str) -> FakeMachine {
    let machine = FakeMachine::new();
    let client = format!("sys/kernel/debug/ceph/{CEPH_CLUSTER}.client4267");
    let [latency, size] = ceph_metrics(100, 200, 10);
    machine
        .put_ordinary_files()
        .put_file("proc/self/mountinfo", mountinfo(&[("40", "/mnt/ceph", "ceph", source)]))
        .put_file(&format!("{client}/osdc"), OSDC)
        .put_file(&format!("{client}/mdsc"), MDSC)
        .put_file(&format!("{client}/metrics/latency"), latency)
        .put_file(&format!("{client}/metrics/size"), size);
    machine
}

#[test]
fn a_filesystem_of_ceph_has_operations_bytes_and_waiting_requests() {
    for source in [format!("admin@{CEPH_CLUSTER}.cephfs=/"), "192.0.2.1:6789,192.0.2.2:6789:/".to_owned()] {
        let machine = ceph_machine(&source);
        let mut watch = machine.watch_default();
        watch.tick();
        let client = format!("sys/kernel/debug/ceph/{CEPH_CLUSTER}.client4267");
        let [latency, size] = ceph_metrics(130, 205, 12);
        machine.put_file(&format!("{client}/metrics/latency"), latency);
        machine.put_file(&format!("{client}/metrics/size"), size);
        watch.tick_after(1.0);
        let value = |counter: &str| watch.value(&format!("network_filesystem.{counter}"), "/mnt/ceph");
        assert_eq!((value("reads"), value("read_bytes")), (30.0, 30.0 * 4096.0));
        assert_eq!((value("writes"), value("metadata_operations"), value("replies")), (5.0, 2.0, 37.0));
        assert_eq!(value("unanswered"), 5.0);
    }
}

#[test]
fn a_ceph_cluster_that_does_not_answer_is_named_with_its_servers() {
    let machine = ceph_machine("192.0.2.1:6789:/");
    let mut watch = machine.watch_default();
    watch.tick();
    for _ in 0..9 {
        watch.tick_after(1.0);
    }
    assert!(watch.notes_of_kind(Note::WARNING).is_empty(), "{:?}", watch.notes);
    watch.tick_after(1.0);
    let expected = "/mnt/ceph: 5 requests wait for Ceph, the oldest for 10 s or more (osd3: 2, mds0: 1, no mds: 1)";
    assert_eq!(watch.notes_of_kind(Note::WARNING), [expected]);
    // nothing was answered meanwhile: what the rule on silent mounts asks for
    assert_eq!(watch.value("network_filesystem.replies", "/mnt/ceph"), 0.0);
}

#[test]
fn a_block_device_of_ceph_is_named_by_its_client() {
    let machine = FakeMachine::new();
    let client = format!("sys/kernel/debug/ceph/{CEPH_CLUSTER}.client4268");
    machine
        .put_ordinary_files()
        .put_file(&format!("{client}/osdc"), OSDC)
        .put_file("sys/bus/rbd/devices/0/client_id", "client4268\n")
        .put_file("sys/bus/rbd/devices/1/client_id", "client9\n");
    let mut watch = machine.watch_default();
    watch.tick().tick_after(11.0);
    assert!(watch.has_note(Note::WARNING, "rbd0: 3 requests wait for Ceph"), "{:?}", watch.notes);
    // its requests are those of a disk, not of a filesystem
    assert!(watch.sampler.schema().instances("network_filesystem").is_empty());
}

#[test]
fn ceph_without_debugfs_is_reported_once() {
    let machine = FakeMachine::new();
    machine.put_ordinary_files();
    machine.put_file("proc/self/mountinfo", mountinfo(&[("40", "/mnt/ceph", "ceph", "192.0.2.1:6789:/")]));
    let mut watch = machine.watch_default();
    watch.tick().tick_after(60.0).tick_after(60.0);
    let notes: Vec<_> =
        watch.notes_of_kind(Note::UNSEEN).into_iter().filter(|n| n.contains("kernel/debug/ceph")).collect();
    assert_eq!(notes.len(), 1, "{notes:?}");
}
