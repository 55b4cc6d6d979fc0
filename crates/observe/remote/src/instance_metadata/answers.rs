//! Answers of the metadata services.

use serde_json::Value;

use super::{InstanceMetadata, MetadataVolume, VolumePlace};

/// Largest number of volumes of a machine.
const MAX_VOLUMES: usize = 1024;
/// Longest name of a type, bytes.
const MAX_TYPE_BYTES: usize = 64;

/// Reads a type: a word, or the last part of a path (`projects/1/machineTypes/n2-standard-8`).
///
/// # Errors
/// When it is no such word.
pub fn parse_machine_type(text: &str) -> Result<String, String> {
    let word = text.trim().rsplit('/').next().unwrap_or_default();
    let is_type = !word.is_empty()
        && word.len() <= MAX_TYPE_BYTES
        && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
    if is_type { Ok(word.to_owned()) } else { Err("its answer is no type of an instance".into()) }
}

/// Text of a field; Azure sends numbers as texts, and empty texts for what there is not.
fn text_field<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str().filter(|text| !text.is_empty())
}

fn number_field(value: &Value, name: &str) -> Option<f64> {
    let found = value.get(name)?;
    let number = found.as_f64().or_else(|| found.as_str()?.parse().ok())?;
    (number > 0.0 && number.is_finite()).then_some(number)
}

/// Reads `compute` of Azure's instance metadata.
///
/// # Errors
/// When it is not that.
pub fn parse_azure_compute(text: &str) -> Result<InstanceMetadata, String> {
    let compute: Value = serde_json::from_str(text).map_err(|error| format!("its answer is not JSON: {error}"))?;
    let size = text_field(&compute, "vmSize").ok_or("its answer has no vmSize")?;
    let storage = compute.get("storageProfile").unwrap_or(&Value::Null);
    let system = storage.get("osDisk").map(|disk| azure_disk(disk, VolumePlace::AzureSystem));
    let data = storage.get("dataDisks").and_then(Value::as_array).into_iter().flatten().map(|disk| {
        let unit = number_field(disk, "lun").map_or(0, |lun| lun as u32);
        azure_disk(disk, VolumePlace::AzureUnit(unit))
    });
    let volumes = system.into_iter().chain(data).flatten().take(MAX_VOLUMES).collect();
    Ok(InstanceMetadata { instance_type: parse_machine_type(size)?, volumes })
}

fn azure_disk(disk: &Value, place: VolumePlace) -> Option<MetadataVolume> {
    let type_name = text_field(disk.get("managedDisk")?, "storageAccountType")?;
    let gib = number_field(disk, "diskSizeGB");
    Some(MetadataVolume {
        place,
        type_name: parse_machine_type(type_name).ok()?,
        size_bytes: gib.filter(|gib| *gib <= 1e6).map(|gib| (gib * 1_073_741_824.0) as u64),
        // of Ultra disks alone
        iops: number_field(disk, "opsPerSecondThrottle"),
        bytes_per_s: number_field(disk, "bytesPerSecondThrottle"),
    })
}

/// Reads the disks of Google's metadata. Local and ephemeral disks are none of the network's.
///
/// # Errors
/// When it is not that.
pub fn parse_google_disks(text: &str) -> Result<Vec<MetadataVolume>, String> {
    let disks: Vec<Value> = serde_json::from_str(text).map_err(|error| format!("its disks are no list: {error}"))?;
    let volume = |disk: &Value| {
        let type_name = text_field(disk, "type").filter(|kind| !kind.starts_with("LOCAL"))?;
        Some(MetadataVolume {
            place: VolumePlace::GoogleDevice(parse_machine_type(text_field(disk, "deviceName")?).ok()?),
            type_name: parse_machine_type(type_name).ok()?,
            ..MetadataVolume::default()
        })
    };
    Ok(disks.iter().filter_map(volume).take(MAX_VOLUMES).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Azure's page on the instance metadata service shows it, shortened.
    #[test]
    fn reads_the_disks_of_azure() {
        let text = r#"{
            "vmSize": "Standard_D8s_v5",
            "storageProfile": {
                "osDisk": { "diskSizeGB": "30", "managedDisk": { "storageAccountType": "Premium_LRS" } },
                "dataDisks": [
                    { "lun": "0", "diskSizeGB": "1024", "bytesPerSecondThrottle": "", "opsPerSecondThrottle": "",
                      "managedDisk": { "id": "/x", "storageAccountType": "Premium_LRS" } },
                    { "lun": "3", "diskSizeGB": "64", "bytesPerSecondThrottle": "979202048",
                      "opsPerSecondThrottle": "65280", "managedDisk": { "storageAccountType": "UltraSSD_LRS" } },
                    { "lun": "4", "managedDisk": {} }
                ]
            }
        }"#;
        let found = parse_azure_compute(text).unwrap();
        assert_eq!(found.instance_type, "Standard_D8s_v5");
        let places: Vec<&VolumePlace> = found.volumes.iter().map(|volume| &volume.place).collect();
        assert_eq!(places, [&VolumePlace::AzureSystem, &VolumePlace::AzureUnit(0), &VolumePlace::AzureUnit(3)]);
        assert_eq!(found.volumes[0].size_bytes, Some(30 << 30));
        assert_eq!((found.volumes[1].iops, found.volumes[1].type_name.as_str()), (None, "Premium_LRS"));
        assert_eq!((found.volumes[2].iops, found.volumes[2].bytes_per_s), (Some(65_280.0), Some(979_202_048.0)));
    }

    #[test]
    fn reads_the_disks_of_google() {
        let text = r#"[
            {"deviceName":"boot","index":0,"interface":"SCSI","mode":"READ_WRITE","type":"PERSISTENT-BALANCED"},
            {"deviceName":"data-1","index":1,"interface":"NVME","mode":"READ_WRITE","type":"PERSISTENT-SSD"},
            {"deviceName":"local-ssd-0","index":2,"interface":"NVME","mode":"READ_WRITE","type":"LOCAL-SSD"}
        ]"#;
        let found = parse_google_disks(text).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].place, VolumePlace::GoogleDevice("data-1".into()));
        assert_eq!(found[1].type_name, "PERSISTENT-SSD");
        assert_eq!(parse_machine_type("projects/42/machineTypes/n2-standard-8\n").unwrap(), "n2-standard-8");
    }

    #[test]
    fn other_answers_are_no_facts() {
        for text in ["", "<html>", "[]", "{}", r#"{"vmSize": "a b"}"#, r#"{"vmSize": 5}"#] {
            assert!(parse_azure_compute(text).is_err(), "{text}");
        }
        assert!(parse_google_disks("{}").is_err());
        assert!(parse_google_disks(r#"[1, {}, {"type": "PERSISTENT", "deviceName": "../x y"}]"#).unwrap().is_empty());
        for text in ["", "a b", "<html>", "x\u{1b}[2J", &"x".repeat(65)] {
            assert!(parse_machine_type(text).is_err(), "{text}");
        }
        let huge = r#"{"vmSize":"A1","storageProfile":{"osDisk":
            {"diskSizeGB":1e300,"managedDisk":{"storageAccountType":"P"}}}}"#;
        assert_eq!(parse_azure_compute(huge).unwrap().volumes[0].size_bytes, None);
    }
}
