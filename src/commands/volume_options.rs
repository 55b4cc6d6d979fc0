//! Volumes and the instance of a cloud by hand: `--volume-type`, `--instance-type`.

use clap::Args;
use diskwright_base::CloudInstance;
use diskwright_base::byte_size::parse_capacity;
use diskwright_base::cloud_volume::VolumeFacts;
use diskwright_base::user_input::did_you_mean;
use diskwright_ingest::{DeclaredVolume, VOLUME_OPTION};
use diskwright_planner::prices::{PriceList, built_in_prices};

use super::{Failure, first_given_option};

/// Name of the option for the instance, as who told its type.
const INSTANCE_OPTION: &str = "--instance-type";

/// Facts that the user knows about volumes and the instance of a cloud.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Clouds")]
pub struct VolumeOptions {
    /// Type of a cloud volume, for its limits: 'sda=gp3', 'sda=gp2:500GiB', 'sda=gp3:500GiB:16000:1000' (size,
    /// requests and MiB or MB per second), 'sdc=premium-ssd-p30' (repeatable; docs/volumes.md)
    #[arg(long, value_name = "DISK=TYPE")]
    volume_type: Vec<String>,
    /// Type of the cloud instance, for its limits for all volumes: m6i.large, Standard_D8s_v5, n2-standard-8
    #[arg(long, value_name = "TYPE")]
    instance_type: Option<String>,
}

impl VolumeOptions {
    /// Returns the first of these options that was given.
    pub fn first_given_option(&self) -> Option<&'static str> {
        let given = [(VOLUME_OPTION, !self.volume_type.is_empty()), (INSTANCE_OPTION, self.instance_type.is_some())];
        first_given_option(&given)
    }

    /// Returns the volumes, checked.
    pub fn declared_volumes(&self) -> Result<Vec<DeclaredVolume>, Failure> {
        if self.volume_type.is_empty() {
            return Ok(Vec::new());
        }
        let prices = built_in_prices();
        self.volume_type.iter().map(|text| parse_volume_type(text, &prices)).collect()
    }

    /// Returns the instance. One that is not in our table has no limits, which the verdict says.
    pub fn declared_instance(&self) -> Result<Option<CloudInstance>, Failure> {
        let Some(name) = &self.instance_type else { return Ok(None) };
        if name.is_empty() || name.len() > 64 || !name.chars().all(|c| c.is_ascii_graphic()) {
            return Err(Failure::Usage(format!("{INSTANCE_OPTION}: write a type of instance, such as m6i.large")));
        }
        Ok(Some(find_instance(&built_in_prices(), name, "", INSTANCE_OPTION)))
    }
}

/// Returns an instance with its limits, or without where its type is not in the list. `told_by` is who told it.
pub fn find_instance(prices: &PriceList, name: &str, provider: &str, told_by: &str) -> CloudInstance {
    match prices.find_instance(name) {
        Some(caps) => caps.cloud_instance(told_by),
        None => CloudInstance {
            type_id: name.into(),
            provider: provider.into(),
            told_by: told_by.into(),
            ..CloudInstance::default()
        },
    }
}

/// Parses `sda=gp3:500GiB:16000:1000`; what follows the type may be missing.
fn parse_volume_type(text: &str, prices: &PriceList) -> Result<DeclaredVolume, Failure> {
    let failure = |because: String| Failure::Usage(format!("{VOLUME_OPTION} `{text}`: {because}"));
    let (disk, rest) = text
        .rsplit_once('=')
        .map(|(disk, rest)| (disk.trim(), rest.trim()))
        .filter(|(disk, rest)| !disk.is_empty() && !rest.is_empty())
        .ok_or_else(|| failure("write a disk and its type, such as sda=gp3:500GiB".into()))?;
    let parts: Vec<&str> = rest.split(':').collect();
    let [name, facts @ ..] = parts.as_slice() else { return Err(failure("no type".into())) };
    if facts.len() > 3 {
        return Err(failure("write DISK=TYPE:SIZE:IOPS:RATE at most".into()));
    }
    let number = |index: usize, what: &str| {
        let given = facts.get(index).filter(|text| !text.is_empty());
        let parse = |text: &&str| text.parse::<f64>().ok().filter(|n| *n > 0.0 && n.is_finite());
        given.map(|text| parse(text).ok_or_else(|| failure(format!("`{text}` is no number of {what}")))).transpose()
    };
    let size = facts.first().filter(|text| !text.is_empty());
    let size_bytes = size.map(|text| parse_capacity(text).map_err(|error| failure(error.to_string()))).transpose()?;
    let kind = prices.find_volume_type(name, size_bytes).ok_or_else(|| failure(describe_unknown(name, prices)))?;
    let declared = DeclaredVolume {
        disk: disk.into(),
        facts: VolumeFacts { size_bytes, iops: number(1, "requests per second")?, rate: number(2, kind.unit.name())? },
        kind,
    };
    // what is wrong with the numbers is told before a long log is read
    if size_bytes.is_some() || !declared.kind.needs_size() {
        declared.kind.provision(&declared.facts, VOLUME_OPTION).map_err(failure)?;
    }
    Ok(declared)
}

fn describe_unknown(name: &str, prices: &PriceList) -> String {
    if prices.is_shared_type_name(name) {
        return format!("the size decides which type `{name}` is, at most the largest: write {name}:SIZE");
    }
    let ids: Vec<&str> = prices.volume_type_ids().collect();
    let short_names = ids.iter().filter_map(|id| Some(id.split_once('-')?.1));
    let suggestion = did_you_mean(name, short_names.chain(ids.iter().copied()).collect::<Vec<&str>>());
    format!("unknown type{suggestion}; types: {}", ids.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<DeclaredVolume, String> {
        parse_volume_type(text, &built_in_prices()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_type_is_read_with_what_was_bought() {
        let gp3 = parse("nvme1n1=gp3:500GiB:16000:1000").unwrap();
        assert_eq!((gp3.disk.as_str(), gp3.kind.id.as_str()), ("nvme1n1", "aws-gp3"));
        assert_eq!(gp3.facts, VolumeFacts { size_bytes: Some(500 << 30), iops: Some(16_000.0), rate: Some(1000.0) });
        assert_eq!(parse("sda=premium-ssd-p30").unwrap().kind.id, "azure-p30");
        assert_eq!(parse("sda=P60").unwrap().kind.id, "azure-p60");
        assert_eq!(parse("sda=Premium_LRS:200GiB").unwrap().kind.id, "azure-p15", "rounded up, as Azure does");
        assert_eq!(parse("sda=PERSISTENT-SSD").unwrap().kind.id, "gcp-pd-ssd");
        assert_eq!(parse("sda=gp2").unwrap().facts, VolumeFacts::default(), "the log may know the size");
    }

    #[test]
    fn what_is_wrong_is_told() {
        let cases = [
            ("sda", "such as sda=gp3"),
            ("=gp3", "such as sda=gp3"),
            ("sda=gp4", "did you mean"),
            ("sda=gp3:x", "x"),
            ("sda=gp3:500GiB:many", "`many` is no number of requests per second"),
            ("sda=gp3:500GiB:3000:fast", "`fast` is no number of MiB/s"),
            ("sda=gp3:500GiB:90000", "at most 80000"),
            ("sda=gp3:1:2:3:4", "at most"),
            ("sda=io2:500GiB", "were bought"),
            ("sda=Premium_LRS", "Premium_LRS:SIZE"),
        ];
        for (text, expected) in cases {
            let message = parse(text).unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn an_instance_that_is_not_listed_has_no_limits() {
        let option = |name: &str| VolumeOptions { instance_type: Some(name.into()), ..VolumeOptions::default() };
        let known = option("M6I.LARGE").declared_instance().ok().flatten().unwrap();
        assert_eq!((known.type_id.as_str(), known.provider.as_str()), ("m6i.large", "aws"));
        assert!(known.caps().is_some());
        let unknown = option("z99.large").declared_instance().ok().flatten().unwrap();
        assert_eq!((unknown.type_id.as_str(), unknown.caps()), ("z99.large", None));
        assert!(option("a b").declared_instance().is_err());
    }
}
