//! Topology by hand: what a log does not show of its disks (`--array`, or a
//! TOML file), put into the topology that diagnosis sees.

use std::path::PathBuf;

use clap::Args;
use diskwright_base::units::parse_size;
use diskwright_base::{Class, Device, Level, Schema, Topology};
use serde::Deserialize;

use super::Failure;

/// What the user knows of the disks of a log.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Logs of other tools")]
pub struct Arrays {
    /// A disk that is an array, its level and members: 'PhysicalDisk(0)=raid5:3', 'sda=single';
    /// * is every disk; a class may follow: 'sda=raid10:8:rotational' (repeatable)
    #[arg(long, value_name = "DISK=LEVEL:MEMBERS")]
    array: Vec<String>,
    /// The same in a file: [[array]] with disk, level, members, class, stripe
    #[arg(long, value_name = "FILE.toml")]
    topology: Option<PathBuf>,
}

/// One disk as the user describes it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Described {
    disk: String,
    level: Option<String>,
    #[serde(default = "one")]
    members: u32,
    class: Option<Class>,
    stripe: Option<String>,
}

fn one() -> u32 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    array: Vec<Described>,
}

impl Arrays {
    /// Everything that was said, options after the file.
    pub fn described(&self) -> Result<Vec<Described>, Failure> {
        let mut all = Vec::new();
        if let Some(path) = &self.topology {
            let name = path.display();
            let text = std::fs::read_to_string(path).map_err(|e| Failure::Failed(format!("{name}: {e}")))?;
            let file: File = toml::from_str(&text).map_err(|e| Failure::Failed(format!("{name}: {e}")))?;
            all.extend(file.array);
        }
        for text in &self.array {
            all.push(parse(text)?);
        }
        all.iter().try_for_each(check)?;
        Ok(all)
    }
}

/// Reads `DISK=LEVEL[:MEMBERS[:CLASS]]`.
fn parse(text: &str) -> Result<Described, Failure> {
    let wrong = |because: &str| Failure::Usage(format!("--array `{text}`: {because}; write 'PhysicalDisk(0)=raid5:3'"));
    let (disk, what) = text.rsplit_once('=').ok_or_else(|| wrong("no ="))?;
    let mut parts = what.split(':');
    let level = parts.next().unwrap_or_default();
    let mut described =
        Described { disk: disk.trim().into(), level: Some(level.into()), members: 1, class: None, stripe: None };
    for part in parts {
        match (part.parse(), class(part)) {
            (Ok(members), _) => described.members = members,
            (_, Some(class)) => described.class = Some(class),
            _ => return Err(wrong(&format!("`{part}` is neither a number of members nor a class"))),
        }
    }
    Ok(described)
}

fn class(word: &str) -> Option<Class> {
    serde_json::from_value(serde_json::Value::String(word.to_lowercase())).ok()
}

fn check(described: &Described) -> Result<(), Failure> {
    let disk = &described.disk;
    let wrong = |because: String| Err(Failure::Usage(format!("array `{disk}`: {because}")));
    let level = described.level.as_deref().map(|l| (l, level(l)));
    let least = match level {
        None => 1,
        Some((name, None)) => {
            let known = Level::ALL.map(Level::name).join(", ");
            return wrong(format!("no level is called `{name}`; levels: single, {known}"));
        }
        Some((_, Some(Level::Linear | Level::Raid0))) => 1,
        Some((_, Some(Level::Raid1))) => 2,
        Some((_, Some(Level::Raid4 | Level::Raid5))) => 3,
        Some((_, Some(Level::Raid6 | Level::Raid10))) => 4,
    };
    if described.members < least {
        return wrong(format!("needs at least {least} members, not {}", described.members));
    }
    if let Some(Err(error)) = described.stripe.as_deref().map(parse_size) {
        return wrong(format!("stripe: {error}"));
    }
    Ok(())
}

fn level(name: &str) -> Option<Level> {
    if name.eq_ignore_ascii_case("jbod") { Some(Level::Linear) } else { Level::parse(name) }
}

/// The devices that were described, by the names that the log has for them.
/// A disk that no log has is an error that names those there are.
pub fn devices(described: &[Described], schemas: &[&Schema]) -> Result<Vec<Device>, Failure> {
    let mut names: Vec<&str> = Vec::new();
    for object in ["physical_disk", "logical_disk"] {
        for name in schemas.iter().flat_map(|s| s.instances(object)) {
            if !names.contains(&name) && !name.eq_ignore_ascii_case("_total") {
                names.push(name);
            }
        }
    }
    let mut devices: Vec<Device> = Vec::new();
    for one in described {
        let found: Vec<&&str> = names.iter().filter(|name| is_named(&one.disk, name)).collect();
        if found.is_empty() {
            let known = names.join(", ");
            return Err(Failure::Usage(format!("no disk of the log is called `{}`; disks: {known}", one.disk)));
        }
        for name in found {
            devices.retain(|d| d.name != **name);
            devices.push(device(one, name));
        }
    }
    Ok(devices)
}

/// Whether the user's word means this instance: itself, `Object(itself)`, the
/// number before the drive letters of NT's disks (`0` of `0 C: D:`), or `*`.
fn is_named(word: &str, instance: &str) -> bool {
    let inner = word.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(word);
    let first = instance.split(' ').next().unwrap_or(instance);
    inner == "*" || inner.eq_ignore_ascii_case(instance) || inner == first
}

fn device(described: &Described, name: &str) -> Device {
    let level = described.level.as_deref().and_then(level).filter(|_| described.members > 1);
    Device {
        name: name.to_owned(),
        class: described.class.unwrap_or_default(),
        level,
        members: Some(described.members),
        stripe_bytes: described.stripe.as_deref().and_then(|s| parse_size(s).ok()),
        ..Device::default()
    }
}

/// Puts the described devices into a topology that the log has, or into an
/// empty one. What the log itself shows of a device stays, but for level,
/// members and what else was said.
pub fn merge(topology: &mut Topology, devices: &[Device]) {
    for described in devices {
        match topology.devices.iter_mut().find(|d| d.name == described.name) {
            Some(known) => {
                known.level = described.level.or(known.level);
                known.members = described.members;
                known.stripe_bytes = described.stripe_bytes.or(known.stripe_bytes);
                if described.class != Class::Unknown {
                    known.class = described.class;
                }
            }
            None => topology.devices.push(described.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::Series;

    use super::*;

    fn described(texts: &[&str]) -> Result<Vec<Described>, Failure> {
        Arrays { array: texts.iter().map(|t| t.to_string()).collect(), topology: None }.described()
    }

    fn schema(disks: &[&str]) -> Schema {
        let one = |d: &&str| Series { counter: "physical_disk.busy".into(), instance: d.to_string(), scale: 1.0 };
        Schema { series: disks.iter().map(one).collect() }
    }

    #[test]
    fn arrays_are_said_as_people_say_them() {
        let log = schema(&["0 C: D:", "1 E:", "_Total"]);
        let said = described(&["PhysicalDisk(0)=raid5:3", "1 E:=single:rotational"]).unwrap();
        let devices = devices(&said, &[&log]).unwrap();
        assert_eq!(
            (devices[0].name.as_str(), devices[0].level, devices[0].members),
            ("0 C: D:", Some(Level::Raid5), Some(3))
        );
        assert_eq!((devices[1].level, devices[1].members, devices[1].class), (None, Some(1), Class::Rotational));
        let mut topology = Topology::default();
        merge(&mut topology, &devices);
        assert_eq!(topology.spindles("0 C: D:"), 3);
    }

    #[test]
    fn a_star_is_every_disk_and_the_later_word_wins() {
        let log = schema(&["sda", "sdb"]);
        let said = described(&["*=single", "sdb=raid10:8"]).unwrap();
        let found = devices(&said, &[&log]).unwrap();
        let members: Vec<_> = found.iter().map(|d| (d.name.as_str(), d.members)).collect();
        assert_eq!(members, [("sda", Some(1)), ("sdb", Some(8))]);
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_reason() {
        let cases = [
            ("sda", "no ="),
            ("sda=raid5:2", "at least 3"),
            ("sda=raid9:4", "raid9"),
            ("sda=raid5:x", "`x`"),
            ("sda=raid5:0", "at least 3"),
        ];
        for (text, expected) in cases {
            let said = described(&[text]).unwrap_err();
            assert_eq!(said.exit_code(), 2);
            assert!(said.to_string().contains(expected), "{said}");
        }
        let said = devices(&described(&["sdz=raid1:2"]).unwrap(), &[&schema(&["sda"])]).unwrap_err();
        assert!(said.to_string().contains("sdz") && said.to_string().contains("sda"), "{said}");
    }
}
