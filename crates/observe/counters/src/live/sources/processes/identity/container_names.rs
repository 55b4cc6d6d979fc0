//! Names of containers and pods, from the state folders of their runtimes; no daemon is asked.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use diskwright_base::process_place::CgroupPlace;
use diskwright_base::{ProcessContainer, ProcessPod};
use serde_json::Value;

use crate::live::Roots;
use crate::live::watched_read::{list_folder, watch_read};

/// Largest state file that is read, bytes.
const MAX_STATE_BYTES: u64 = 4 << 20;
/// Largest number of namespaces of containerd, and of pods, that are searched.
const MAX_ENTRIES: usize = 4096;

/// Folders of Docker: packaged by the distribution, by Docker, by snap.
const DOCKER_FOLDERS: [&str; 2] = ["/var/lib/docker", "/var/snap/docker/common/var-lib-docker"];
/// Folders of containerd's tasks; k3s and RKE2 have their own.
const CONTAINERD_FOLDERS: [&str; 3] = [
    "/run/containerd/io.containerd.runtime.v2.task",
    "/run/k3s/containerd/io.containerd.runtime.v2.task",
    "/run/containerd/io.containerd.runtime.v1.linux",
];
/// Folders of the library that Podman and CRI-O keep containers in.
const STORAGE_FOLDERS: [&str; 2] = ["/var/lib/containers/storage", "/run/containers/storage"];
/// The same below the home folder of a user.
const USER_STORAGE_FOLDER: &str = ".local/share/containers/storage";
/// Storage drivers, whose names begin the folders of containers.
const STORAGE_DRIVERS: [&str; 4] = ["overlay", "vfs", "btrfs", "zfs"];
/// Folder of the logs of pods: a folder `NAMESPACE_NAME_UID` for each.
const POD_LOGS: &str = "/var/log/pods";

/// Keys of annotations and labels, by runtime: containerd, CRI-O and Docker below Kubernetes, nerdctl.
const CONTAINER_KEYS: [&str; 3] = ["io.kubernetes.cri.container-name", "io.kubernetes.container.name", "nerdctl/name"];
const POD_NAME_KEYS: [&str; 2] = ["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"];
const POD_NAMESPACE_KEYS: [&str; 2] = ["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"];
const POD_UID_KEYS: [&str; 2] = ["io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"];

/// Reads names of containers.
#[derive(Debug, Default)]
pub(super) struct ContainerNames {
    docker_folders: Option<Vec<PathBuf>>,
}

/// What a state file tells.
#[derive(Debug, Default)]
struct FoundNames {
    runtime: Option<&'static str>,
    name: Option<String>,
    pod_name: Option<String>,
    pod_namespace: Option<String>,
    pod_uid: Option<String>,
}

impl ContainerNames {
    /// Adds to a place what state folders tell of its container and pod. `home` is that of the user of the session.
    pub fn add_names(&mut self, roots: &Roots, found: &mut CgroupPlace, home: Option<&str>) {
        let id = found.container_id.clone();
        if let Some(container) = found.place.container.as_mut().filter(|_| !id.is_empty()) {
            let names = match container.runtime.as_str() {
                "docker" => self.docker_names(roots, &id),
                "podman" => storage_names(roots, &id, home),
                "cri-o" => storage_names(roots, &id, home).map(|names| FoundNames { runtime: None, ..names }),
                "containerd" => containerd_names(roots, &id),
                _ => containerd_names(roots, &id)
                    .or_else(|| self.docker_names(roots, &id))
                    .or_else(|| storage_names(roots, &id, home)),
            };
            let names = names.unwrap_or_default();
            container.name = names.name.filter(|name| !name.is_empty());
            if let Some(runtime) = names.runtime.filter(|_| matches!(container.runtime.as_str(), "cri" | "unknown")) {
                runtime.clone_into(&mut container.runtime);
            }
            if let Some(uid) = names.pod_uid.filter(|_| found.place.pod.is_none()) {
                found.place.pod = Some(ProcessPod { uid, ..ProcessPod::default() });
            }
            if let Some(pod) = &mut found.place.pod {
                (pod.name, pod.namespace) = (names.pod_name, names.pod_namespace);
            }
        }
        if let Some(pod) = found.place.pod.as_mut().filter(|pod| pod.name.is_none()) {
            (pod.namespace, pod.name) = pod_names_of_logs(roots, &pod.uid).unzip();
        }
    }

    /// Recognizes a container of containerd that has a name for an id (`ctr run`): only its state folder tells that its
    /// group is one of a container.
    pub fn add_task(&self, roots: &Roots, found: &mut CgroupPlace, path: &str) {
        let Some((namespace, id)) = task_of_cgroup(path) else { return };
        let folders = CONTAINERD_FOLDERS.iter().map(|folder| roots.resolve_path(folder).join(namespace).join(id));
        let Some(state) = folders.filter_map(|folder| read_json(&folder.join("config.json"))).next() else { return };
        let (name, id) = match names_of(&state["annotations"]).name {
            Some(name) => (name, id.to_owned()),
            None => (id.to_owned(), String::new()),
        };
        found.place.container = Some(ProcessContainer { runtime: "containerd".into(), name: Some(name), id });
    }

    fn docker_names(&mut self, roots: &Roots, id: &str) -> Option<FoundNames> {
        let folders = self.docker_folders.get_or_insert_with(|| docker_folders(roots));
        let files = folders.iter().map(|folder| folder.join("containers").join(id).join("config.v2.json"));
        let state = files.filter_map(|file| read_json(&file)).next()?;
        let mut names = names_of(&state["Config"]["Labels"]);
        names.runtime = Some("docker");
        // below Kubernetes, Docker's name has all of the pod's
        names.name = names.name.or_else(|| Some(state["Name"].as_str()?.trim_start_matches('/').to_owned()));
        Some(names)
    }
}

/// Namespace and id of the task whose group a path may be: containerd makes it `/NAMESPACE/ID`.
pub(super) fn task_of_cgroup(path: &str) -> Option<(&str, &str)> {
    let mut parts = path.strip_prefix('/')?.splitn(3, '/');
    let task = (parts.next()?, parts.next()?);
    let is_unit = |part: &str| [".slice", ".scope", ".service"].iter().any(|kind| part.ends_with(kind));
    // a group above the root of the namespace is `..`
    let is_name = |part: &str| !part.is_empty() && !part.starts_with('.') && !is_unit(part);
    (is_name(task.0) && is_name(task.1)).then_some(task)
}

/// Folders of Docker's state; its configuration may move them.
fn docker_folders(roots: &Roots) -> Vec<PathBuf> {
    let configuration = read_json(&roots.resolve_path("/etc/docker/daemon.json")).unwrap_or_default();
    let moved = ["data-root", "graph"].into_iter().filter_map(|key| configuration[key].as_str());
    moved.chain(DOCKER_FOLDERS).map(|folder| roots.resolve_path(folder)).collect()
}

fn containerd_names(roots: &Roots, id: &str) -> Option<FoundNames> {
    let namespaces = CONTAINERD_FOLDERS.iter().flat_map(|folder| list_folder(&roots.resolve_path(folder)));
    let files = namespaces.take(MAX_ENTRIES).map(|entry| entry.path().join(id).join("config.json"));
    let state = files.filter_map(|file| read_json(&file)).next()?;
    Some(FoundNames { runtime: Some("containerd"), ..names_of(&state["annotations"]) })
}

/// Names of a container of Podman or CRI-O.
fn storage_names(roots: &Roots, id: &str, home: Option<&str>) -> Option<FoundNames> {
    let of_user = home.map(|home| roots.resolve_path(home).join(USER_STORAGE_FOLDER));
    let storages: Vec<PathBuf> =
        of_user.into_iter().chain(STORAGE_FOLDERS.iter().map(|folder| roots.resolve_path(folder))).collect();
    let folders: Vec<PathBuf> = storages
        .iter()
        .flat_map(|storage| STORAGE_DRIVERS.map(|driver| storage.join(format!("{driver}-containers"))))
        .collect();
    for folder in &folders {
        let Some(state) = read_json(&folder.join(id).join("userdata/config.json")) else { continue };
        let names = names_of(&state["annotations"]);
        if names.name.is_some() {
            return Some(FoundNames { runtime: Some("cri-o"), ..names });
        }
    }
    let lists = ["containers.json", "volatile-containers.json"];
    let mut containers =
        folders.iter().flat_map(|folder| lists.map(|list| folder.join(list))).filter_map(|file| read_json(&file));
    let name = containers.find_map(|list| {
        let container = list.as_array()?.iter().find(|container| container["id"] == id)?;
        Some(container["names"][0].as_str()?.to_owned())
    })?;
    Some(FoundNames { runtime: Some("podman"), name: Some(name), ..FoundNames::default() })
}

/// Names in annotations or labels.
fn names_of(labels: &Value) -> FoundNames {
    let value = |keys: &[&str]| keys.iter().find_map(|key| labels[*key].as_str()).map(str::to_owned);
    FoundNames {
        runtime: None,
        name: value(&CONTAINER_KEYS),
        pod_name: value(&POD_NAME_KEYS),
        pod_namespace: value(&POD_NAMESPACE_KEYS),
        pod_uid: value(&POD_UID_KEYS),
    }
}

/// Namespace and name of a pod, by the folder of its logs.
fn pod_names_of_logs(roots: &Roots, uid: &str) -> Option<(String, String)> {
    let entries = list_folder(&roots.resolve_path(POD_LOGS));
    // the id of a static pod has no dashes in one place and dashes in the other
    let without_dashes = |text: &str| text.replace('-', "");
    entries.take(MAX_ENTRIES).find_map(|entry| {
        let folder = entry.file_name().to_string_lossy().into_owned();
        let mut parts = folder.splitn(3, '_');
        let (namespace, name, folder_uid) = (parts.next()?, parts.next()?, parts.next()?);
        (without_dashes(folder_uid) == without_dashes(uid)).then(|| (namespace.to_owned(), name.to_owned()))
    })
}

/// Reads a state file as JSON; `None` if it is too large.
fn read_json(path: &Path) -> Option<Value> {
    let text = watch_read(path, || {
        let file = File::open(path)?;
        let mut text = Vec::new();
        if file.metadata()?.is_file() {
            file.take(MAX_STATE_BYTES).read_to_end(&mut text)?;
        }
        Ok(text)
    });
    serde_json::from_slice(&text.ok()?).ok()
}
