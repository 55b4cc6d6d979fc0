//! Where a process runs: systemd unit, container, pod, virtual machine, as far as the path of its cgroup tells. A pure
//! function; names that only state folders hold are added by who reads them.

use serde::{Deserialize, Serialize};

/// Number of digits of a container's id that are shown.
const SHORT_ID_CHARS: usize = 12;
/// Number of digits of a container's full id.
const FULL_ID_CHARS: usize = 64;

/// Where a process runs. What is not known is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessPlace {
    /// Innermost systemd service or scope; in a container, that of the container's own systemd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Its container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ProcessContainer>,
    /// Its Kubernetes pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<ProcessPod>,
    /// Name of the virtual machine that it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessContainer {
    /// `docker`, `podman`, `containerd`, `cri-o`, `lxc`, `systemd-nspawn`; `cri` for any runtime of a pod; else
    /// `unknown`.
    pub runtime: String,
    /// Name that its user gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Begin of its id; left out where the name is the id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
}

/// A Kubernetes pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessPod {
    /// Its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its id.
    pub uid: String,
}

/// What the path of a cgroup tells, with the full id of the container, by which state folders have its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupPlace {
    /// Where it is.
    pub place: ProcessPlace,
    /// Full id of the container; empty without one.
    pub container_id: String,
    /// Id of the user whose session manager it runs under.
    pub session_user: Option<u32>,
    /// Length of the path up to the container; all of it without one. What follows is the container's own.
    pub host_path_bytes: usize,
}

/// Prefixes of a container's id in the name of its cgroup, and the runtime.
const ID_PREFIXES: [(&str, &str); 8] = [
    ("docker-", "docker"),
    ("libpod-payload-", "podman"),
    ("libpod-", "podman"),
    ("crio-", "cri-o"),
    ("cri-containerd-", "containerd"),
    ("nerdctl-", "containerd"),
    ("containerd-", "containerd"),
    ("cri-dockerd-", "docker"),
];
/// Groups below which containers have a bare id, and the runtime.
const ID_GROUPS: [(&str, &str); 5] =
    [("docker", "docker"), ("ecs", "docker"), ("libpod_parent", "podman"), ("crio", "cri-o"), ("k8s.io", "containerd")];
/// Prefixes before the name of a container that has no id, and the runtime.
const NAME_PREFIXES: [(&str, &str); 2] = [("lxc.payload.", "lxc"), ("systemd-nspawn@", "systemd-nspawn")];
/// Groups whose children are containers with names, and the runtime.
const NAME_PARENTS: [(&str, &str); 2] = [("lxc", "lxc"), ("lxc.payload", "lxc")];
/// Drivers of virtual machines, as they stand in names of scopes.
const MACHINE_DRIVERS: [&str; 5] = ["qemu", "kvm", "xen", "ch", "bhyve"];

/// Tells from the path of a cgroup where its processes run.
#[must_use]
pub fn place_of_cgroup(path: &str) -> CgroupPlace {
    let mut found = CgroupPlace { host_path_bytes: path.len(), ..CgroupPlace::default() };
    let mut parent = "";
    let mut end = 0;
    for part in path.split('/') {
        end += part.len();
        found.session_user = session_user(part).or(found.session_user);
        // without systemd's driver, runc makes one group of slice, prefix and id
        for piece in part.split(':').filter(|piece| !piece.is_empty()) {
            if found.place.pod.is_none() {
                let uid = pod_uid(piece, path);
                found.place.pod = uid.map(|uid| ProcessPod { uid, ..ProcessPod::default() });
            }
            if found.place.container.is_none() && found.place.machine.is_none() {
                found.add_container(piece, parent, &path[..end - part.len()]);
                if found.place.container.is_some() {
                    found.host_path_bytes = end;
                }
            }
            parent = piece;
        }
        end += 1;
    }
    found.place.unit = unit_of_cgroup(path).map(str::to_owned);
    found
}

/// Returns the innermost systemd service or scope of a cgroup's path.
#[must_use]
pub fn unit_of_cgroup(path: &str) -> Option<&str> {
    let is_unit = |name: &&str| {
        let is_manager = name.starts_with("user@") || *name == "init.scope";
        !is_manager && (name.ends_with(".service") || name.ends_with(".scope"))
    };
    path.rsplit('/').find(is_unit)
}

/// The same, but a unit that the machine's own systemd knows: none of a container's.
#[must_use]
pub fn host_unit_of_cgroup(path: &str) -> Option<&str> {
    let host_path = path.get(..place_of_cgroup(path).host_path_bytes)?;
    // below a user's manager, units are that manager's own
    let is_of_user = host_path.split('/').any(|part| part.starts_with("user@"));
    unit_of_cgroup(host_path).filter(|_| !is_of_user)
}

impl CgroupPlace {
    /// Recognizes a container or a machine in a part of the path.
    fn add_container(&mut self, part: &str, parent: &str, above: &str) {
        let stem = part.strip_suffix(".scope").or_else(|| part.strip_suffix(".service")).unwrap_or(part);
        let parent = parent.trim_end_matches(".slice");
        let by_parent =
            |table: &[(&str, &'static str)]| table.iter().find(|(name, _)| *name == parent).map(|row| row.1);
        let with_prefix = |table: &[(&str, &'static str)]| {
            let rest =
                |(prefix, runtime): &(&str, &'static str)| Some((stem.strip_prefix(prefix)?.to_owned(), *runtime));
            table.iter().find_map(rest)
        };
        if let Some((id, runtime)) = with_prefix(&ID_PREFIXES).filter(|(id, _)| is_id(id)) {
            self.set_id(id, runtime);
        } else if is_id(stem) && stem.len() == FULL_ID_CHARS {
            let of_pod = self.place.pod.as_ref().map(|_| "cri");
            let by_colon = ID_PREFIXES.iter().find(|(prefix, _)| prefix.trim_end_matches('-') == parent);
            let is_above = |name: &str| above.split('/').any(|part| part == name);
            let by_group = ID_GROUPS.iter().find(|(name, _)| is_above(name)).map(|row| row.1);
            let runtime = by_group.or(by_colon.map(|row| row.1)).or(of_pod);
            self.set_id(stem.to_owned(), runtime.unwrap_or("unknown"));
        } else if let Some(name) = machine_name(stem, parent) {
            self.place.machine = Some(name);
        } else if let Some((name, runtime)) = with_prefix(&NAME_PREFIXES) {
            self.set_name(&name, runtime);
        } else if let Some(runtime) = by_parent(&NAME_PARENTS) {
            self.set_name(stem, runtime);
        } else if let Some(name) = stem.strip_prefix("machine-").filter(|_| part.ends_with(".scope")) {
            self.set_name(name, "systemd-nspawn");
        }
    }

    fn set_id(&mut self, id: String, runtime: &str) {
        let short = id[..SHORT_ID_CHARS].to_owned();
        self.place.container = Some(ProcessContainer { runtime: runtime.into(), name: None, id: short });
        self.container_id = id;
    }

    fn set_name(&mut self, name: &str, runtime: &str) {
        let (runtime, name) = (runtime.into(), Some(unescape_unit(name)));
        self.place.container = Some(ProcessContainer { runtime, name, id: String::new() });
    }
}

/// True for the id of a container, whole or short.
fn is_id(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (SHORT_ID_CHARS..=FULL_ID_CHARS).contains(&text.len()) && text.bytes().all(is_digit)
}

/// The user of a part like `user-1000.slice`.
fn session_user(part: &str) -> Option<u32> {
    part.strip_prefix("user-")?.strip_suffix(".slice")?.parse().ok()
}

/// The pod of a part: `podUID` below `kubepods`, or with systemd's driver `kubepods-burstable-podUID.slice`, where the
/// dashes of the id are underscores.
fn pod_uid(part: &str, path: &str) -> Option<String> {
    let is_uid = |uid: &&str| uid.len() >= 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if let Some(slice) = part.strip_suffix(".slice").filter(|slice| slice.contains("kubepods")) {
        let uid = slice.rsplit_once("-pod")?.1.replace('_', "-");
        return Some(uid).filter(|uid| is_uid(&uid.as_str()));
    }
    let uid = part.strip_prefix("pod").filter(is_uid)?;
    path.contains("kubepods").then(|| uid.to_owned())
}

/// The virtual machine of a scope: `machine-qemu\x2d1\x2dNAME` (libvirt), `NAME.libvirt-qemu` (libvirt without
/// systemd), a number below `qemu.slice` (Proxmox).
fn machine_name(stem: &str, parent: &str) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // libvirt puts driver and a number before the name
    let after_number = |name: &str| {
        let (driver, rest) = name.split_once('-')?;
        let (number, name) = rest.split_once('-')?;
        (MACHINE_DRIVERS.contains(&driver) && is_number(number)).then(|| name.to_owned())
    };
    if let Some(name) = stem.strip_prefix("machine-") {
        return after_number(&unescape_unit(name));
    }
    if let Some(name) = stem.strip_suffix(".libvirt-qemu") {
        return Some(after_number(name).unwrap_or_else(|| name.to_owned()));
    }
    (parent == "qemu" && is_number(stem)).then(|| stem.to_owned())
}

/// Undoes systemd's escapes in the name of a unit: `\x2d` is a dash.
fn unescape_unit(name: &str) -> String {
    let mut text = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped =
            after.strip_prefix(b"x").and_then(|hex| hex.get(..2)).and_then(|hex| std::str::from_utf8(hex).ok());
        match escaped.filter(|_| *first == b'\\').and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                text.push(byte);
                rest = &after[3..];
            }
            None => {
                text.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "5f3c1a2b-0d4e-4f6a-8b9c-0123456789ab";

    /// Path, and in words: runtime/name/id, pod, machine, unit.
    fn told(path: &str) -> String {
        let path = path.replace("ID", ID).replace("U_D", &UID.replace('-', "_")).replace("U-D", UID);
        let found = place_of_cgroup(&path);
        let container = found.place.container.map(|c| format!("{}/{}/{}", c.runtime, c.name.unwrap_or_default(), c.id));
        assert!(found.container_id.is_empty() || found.container_id == ID, "{path}");
        let pod = found.place.pod.map(|pod| format!("pod {}", if pod.uid == UID { "U" } else { "?" }));
        let machine = found.place.machine.map(|machine| format!("machine {machine}"));
        let unit = found.place.unit.map(|unit| unit.replace(ID, "ID"));
        [container, pod, machine, unit].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_unit_of_a_user_is_not_the_machines() {
        let app = "/user.slice/user-1000.slice/user@1000.service/app.slice/backup.service";
        assert_eq!((unit_of_cgroup(app), host_unit_of_cgroup(app)), (Some("backup.service"), None));
        assert_eq!(host_unit_of_cgroup("/system.slice/backup.service"), Some("backup.service"));
    }

    #[test]
    fn each_runtime_has_its_paths() {
        for (path, expected) in [
            ("/system.slice/docker-ID.scope", "docker//0123456789ab, docker-ID.scope"),
            ("/docker/ID", "docker//0123456789ab"),
            ("/docker/ID/init", "docker//0123456789ab"),
            ("/ecs/0123456789abcdef0123456789abcdef/ID", "docker//0123456789ab"),
            ("/system.slice/docker-ID.scope/system.slice/nginx.service", "docker//0123456789ab, nginx.service"),
            ("/machine.slice/libpod-ID.scope/container", "podman//0123456789ab, libpod-ID.scope"),
            ("/libpod_parent/libpod-ID", "podman//0123456789ab"),
            (
                "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope",
                "podman//0123456789ab, libpod-ID.scope",
            ),
            ("/machine.slice/libpod-conmon-ID.scope", "libpod-conmon-ID.scope"),
            (
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_D.slice/cri-containerd-ID.scope",
                "containerd//0123456789ab, pod U, cri-containerd-ID.scope",
            ),
            (
                "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podU_D.slice/crio-ID.scope",
                "cri-o//0123456789ab, pod U, crio-ID.scope",
            ),
            ("/kubepods/besteffort/podU-D/ID", "cri//0123456789ab, pod U"),
            ("/kubepods/podU-D", "pod U"),
            (
                "/system.slice/containerd.service/kubepods-burstable-podU_D.slice:cri-containerd:ID",
                "containerd//0123456789ab, pod U, containerd.service",
            ),
            ("/default/ID", "unknown//0123456789ab"),
            ("/lxc.payload.web/system.slice/nginx.service", "lxc/web/, nginx.service"),
            ("/lxc/101/ns", "lxc/101/"),
            ("/lxc.monitor.web", ""),
            (
                "/machine.slice/machine-build\\x2dbox.scope/payload",
                "systemd-nspawn/build-box/, machine-build\\x2dbox.scope",
            ),
            ("/machine.slice/systemd-nspawn@box.service/payload", "systemd-nspawn/box/, systemd-nspawn@box.service"),
            (
                "/machine.slice/machine-qemu\\x2d1\\x2dweb\\x2d01.scope/libvirt/emulator",
                "machine web-01, machine-qemu\\x2d1\\x2dweb\\x2d01.scope",
            ),
            ("/machine/qemu-12-db.libvirt-qemu/vcpu0", "machine db"),
            ("/qemu.slice/101.scope", "machine 101, 101.scope"),
            ("/user.slice/user-0.slice/session-3.scope", "session-3.scope"),
            ("/user.slice/user-0.slice/user@0.service/app.slice/vte.scope", "vte.scope"),
            ("/user.slice/user@0.service", ""),
            ("/jobs/pod/docker", ""),
            ("/", ""),
            ("", ""),
        ] {
            assert_eq!(told(path), expected, "{path}");
        }
    }

    #[test]
    fn a_unit_inside_a_container_is_not_the_machines() {
        let path = |text: &str| text.replace("ID", ID);
        assert_eq!(host_unit_of_cgroup("/lxc.payload.web/system.slice/nginx.service"), None);
        let inside = path("/system.slice/docker-ID.scope/system.slice/nginx.service");
        assert_eq!(host_unit_of_cgroup(&inside), Some(path("docker-ID.scope").as_str()));
        assert_eq!(host_unit_of_cgroup("/system.slice/cron.service"), Some("cron.service"));
        assert_eq!(host_unit_of_cgroup("/system.slice/docker-8d19c375.scope/init"), Some("docker-8d19c375.scope"));
    }

    #[test]
    fn broken_escapes_stay_as_they_are() {
        assert_eq!(unescape_unit("a\\x2db\\x2\\xzz\\"), "a-b\\x2\\xzz\\");
    }
}
