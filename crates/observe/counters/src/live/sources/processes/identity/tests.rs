//! Cases of command lines, users and places.

use serde_json::json;

use super::*;
use crate::live::fake::FakeMachine;

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const UID: &str = "5f3c1a2b-0d4e-4f6a-8b9c-0123456789ab";
const STATUS: &[u8] = b"Name:\tx\nUid:\t33\t1000\t33\t33\nGid:\t0\t0\t0\t0\n";

fn machine() -> FakeMachine {
    let machine = FakeMachine::new();
    machine.put_file("etc/passwd", "root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n");
    machine
}

/// A row of process 7 at a slow or another tick.
fn identify(machine: &FakeMachine, known: &mut Identities, cgroup: &str, is_slow_tick: bool) -> ProcessRow {
    let mut row = ProcessRow { pid: 7, ..ProcessRow::default() };
    let roots = machine.roots();
    let process = ListedProcess {
        folder: &roots.proc.join("7"),
        start_ticks: 50,
        is_kernel_thread: false,
        cgroup: cgroup.as_bytes(),
        status: STATUS,
    };
    known.add_to(&mut row, &roots, &process, is_slow_tick);
    row
}

/// In words: runtime, name of the container, namespace and name of the pod.
fn named(machine: &FakeMachine, cgroup: &str) -> String {
    let row = identify(machine, &mut Identities::default(), &format!("0::{}\n", cgroup.replace("ID", ID)), true);
    let place = row.place.expect("a place");
    let container = place.container.map(|c| format!("{} {}", c.runtime, c.name.unwrap_or_else(|| "?".into())));
    let pod = place.pod.map(|pod| {
        assert_eq!(pod.uid, UID);
        format!("{}/{}", pod.namespace.unwrap_or_else(|| "?".into()), pod.name.unwrap_or_else(|| "?".into()))
    });
    [container, pod].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_process_has_its_command_line_and_user() {
    let machine = machine();
    machine.put_file("proc/7/cmdline", "tar\0cf\0/backup.tar\0--password=x\0/srv\0\0\0");
    let row = identify(&machine, &mut Identities::default(), "0::/system.slice/cron.service\n", false);
    assert_eq!(row.command_line.as_deref(), Some("tar cf /backup.tar --password=*** /srv"));
    assert_eq!(row.user.as_deref(), Some("app"), "the effective user");
    assert_eq!(row.place.unwrap().unit.as_deref(), Some("cron.service"));
}

#[test]
fn a_title_is_read_again_only_at_slow_ticks() {
    let machine = machine();
    machine.put_file("proc/7/cmdline", "postgres: app app [local] idle\0\0");
    let mut known = Identities::default();
    let mut line = |is_slow| identify(&machine, &mut known, "0::/\n", is_slow).command_line.unwrap();
    assert_eq!(line(false), "postgres: app app [local] idle");
    machine.put_file("proc/7/cmdline", "postgres: app app [local] COMMIT\0");
    assert_eq!(line(false), "postgres: app app [local] idle");
    assert_eq!(line(true), "postgres: app app [local] COMMIT");
}

#[test]
fn a_kernel_thread_has_no_command_line() {
    let machine = machine();
    machine.put_file("proc/7/cmdline", "");
    assert_eq!(identify(&machine, &mut Identities::default(), "0::/\n", true).command_line, None);
}

#[test]
fn an_unknown_user_and_one_of_a_container_are_numbers() {
    let machine = machine();
    machine.put_file("etc/passwd", "root:x:0:0::/root:/bin/sh\n");
    assert_eq!(identify(&machine, &mut Identities::default(), "0::/\n", true).user.as_deref(), Some("1000"));
    let machine = self::machine();
    let cgroup = format!("0::/docker/{ID}\n");
    assert_eq!(identify(&machine, &mut Identities::default(), &cgroup, true).user.as_deref(), Some("1000"));
}

#[test]
fn the_unit_may_be_only_in_systemds_own_hierarchy() {
    let machine = machine();
    let cgroup = "7:blkio:/system.slice\n1:name=systemd:/system.slice/cron.service\n0::/\n";
    let row = identify(&machine, &mut Identities::default(), cgroup, true);
    assert_eq!(row.place.unwrap().unit.as_deref(), Some("cron.service"));
}

#[test]
fn docker_and_podman_name_their_containers() {
    let machine = machine();
    assert_eq!(named(&machine, "/docker/ID"), "docker ?");
    machine.put_file(&format!("var/lib/docker/containers/{ID}/config.v2.json"), r#"{"Name":"/shop","Config":{}}"#);
    assert_eq!(named(&machine, "/system.slice/docker-ID.scope"), "docker shop");
    assert_eq!(named(&machine, "/jobs/ID"), "docker shop", "found by its id");
    let list = json!([{"id": "f".repeat(64), "names": ["other"]}, {"id": ID, "names": ["web"]}]).to_string();
    machine.put_file("var/lib/containers/storage/overlay-containers/containers.json", &list);
    assert_eq!(named(&machine, "/machine.slice/libpod-ID.scope/container"), "podman web");
    let of_user = list.replace("web", "mine");
    machine.put_file("home/app/.local/share/containers/storage/overlay-containers/containers.json", of_user);
    let path = "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope";
    assert_eq!(named(&machine, path), "podman mine");
}

#[test]
fn docker_may_keep_its_state_elsewhere() {
    let machine = machine();
    machine.put_file("etc/docker/daemon.json", r#"{"data-root": "/srv/docker"}"#);
    machine.put_file(&format!("srv/docker/containers/{ID}/config.v2.json"), r#"{"Name":"/shop"}"#);
    assert_eq!(named(&machine, "/docker/ID"), "docker shop");
}

#[test]
fn pods_are_named_by_each_runtime() {
    let slice =
        format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
    let containerd = format!("{slice}/cri-containerd-ID.scope");
    let by_cgroupfs = format!("/kubepods/besteffort/pod{UID}/ID");
    let machine = machine();
    assert_eq!(named(&machine, &containerd), "containerd ? ?/?");
    machine.put_file(&format!("var/log/pods/shop_api-0_{UID}/api/0.log"), "");
    assert_eq!(named(&machine, &containerd), "containerd ? shop/api-0");
    let annotations = json!({"annotations": {
        "io.kubernetes.cri.container-name": "api",
        "io.kubernetes.cri.sandbox-name": "api-0",
        "io.kubernetes.cri.sandbox-namespace": "shop",
    }});
    let task = format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{ID}/config.json");
    machine.put_file(&task, annotations.to_string());
    assert_eq!(named(&machine, &containerd), "containerd api shop/api-0");
    assert_eq!(named(&machine, &by_cgroupfs), "containerd api shop/api-0");

    let machine = self::machine();
    let annotations = json!({"annotations": {
        "io.kubernetes.container.name": "db",
        "io.kubernetes.pod.name": "db-1",
        "io.kubernetes.pod.namespace": "shop",
    }});
    let file = format!("var/lib/containers/storage/overlay-containers/{ID}/userdata/config.json");
    machine.put_file(&file, annotations.to_string());
    assert_eq!(named(&machine, &format!("{slice}/crio-ID.scope")), "cri-o db shop/db-1");
    assert_eq!(named(&machine, &by_cgroupfs), "cri-o db shop/db-1");
}

#[test]
fn a_container_of_containerd_with_a_name_for_an_id_is_known_by_its_state_folder() {
    let machine = machine();
    let mut known = Identities::default();
    let path = "0::/default/nightly-import\n";
    assert_eq!(
        identify(&machine, &mut known, "0::/jobs/nightly-import\n", true).place,
        None,
        "any group has such names"
    );
    let task = "run/containerd/io.containerd.runtime.v2.task/default/nightly-import/config.json";
    machine.put_file(task, r#"{"annotations":{}}"#);
    assert_eq!(identify(&machine, &mut known, path, false).place, None, "state folders wait for a slow tick");
    assert_eq!(named(&machine, "/default/nightly-import"), "containerd nightly-import");
    assert!(identify(&machine, &mut known, path, true).place.is_some());
    machine.put_file(task, r#"{"annotations":{"nerdctl/name":"web"}}"#);
    assert_eq!(named(&machine, "/default/nightly-import/below"), "containerd web");
}

#[test]
fn names_of_containers_wait_for_a_slow_tick() {
    let machine = machine();
    machine.put_file(&format!("var/lib/docker/containers/{ID}/config.v2.json"), r#"{"Name":"/shop"}"#);
    let mut known = Identities::default();
    let mut name = |is_slow| {
        let row = identify(&machine, &mut known, &format!("0::/docker/{ID}\n"), is_slow);
        row.place.unwrap().container.unwrap().name
    };
    assert_eq!([name(false), name(true), name(false)], [None, Some("shop".into()), Some("shop".into())]);
}

#[test]
fn a_virtual_machine_is_named_by_its_command_line() {
    let machine = machine();
    for (line, expected) in [
        ("/usr/bin/qemu-system-x86_64\0-name\0guest=web 01,debug-threads=on\0", Some("web 01")),
        ("qemu-kvm\0-m\x00512\0-name\0db\0", Some("db")),
        ("qemu-kvm\0-name\0debug-threads=on\0", None),
        ("grep\0-name\0db\0", None),
    ] {
        machine.put_file("proc/7/cmdline", line);
        let place = identify(&machine, &mut Identities::default(), "0::/\n", true).place;
        assert_eq!(place.and_then(|place| place.machine).as_deref(), expected, "{line}");
    }
}

#[test]
fn broken_state_files_name_nothing() {
    let machine = machine();
    for text in ["", "[", "{}", "[1, {\"id\": 7}]", "{\"Name\": 7}"] {
        machine.put_file(&format!("var/lib/docker/containers/{ID}/config.v2.json"), text);
        machine.put_file("var/lib/containers/storage/overlay-containers/containers.json", text);
        assert_eq!(named(&machine, "/docker/ID"), "docker ?", "{text}");
        assert_eq!(named(&machine, "/machine.slice/libpod-ID.scope"), "podman ?", "{text}");
    }
}
