//! The metadata service of a cloud: what an instance can learn about itself without an account.
//!
//! - AWS (instance metadata version 2): the type of the instance. It lists the names of block devices and **not the
//!   types of volumes**; no other source on an instance has those, so that `--volume-type` must name them.
//! - Azure (instance metadata service): the size of the machine, and for each disk its storage account type and size.
//!   Of Ultra disks, also operations and bytes per second.
//! - Google: the machine type, and for each disk its type and device name, without its size and what was bought for it.
//!
//! The services answer on a link-local address, which no router forwards. Nothing is asked on a machine that is not
//! known to be of that cloud ([`CloudProvider::of_machine`]), and no other address is accepted but the loopback of
//! tests. Only these facts are asked: no credentials, and nothing that holds them.

mod answers;

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use ureq::Agent;
use ureq::http::Uri;

pub use answers::{parse_azure_compute, parse_google_disks, parse_machine_type};

/// Longest time of one request. A service answers within milliseconds; where there is none, nothing answers.
const TIMEOUT: Duration = Duration::from_millis(1000);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);
/// Largest answer, bytes.
const MAX_ANSWER_BYTES: u64 = 1 << 20;

/// Address of the services of all clouds.
const LINK_LOCAL_ADDRESS: &str = "http://169.254.169.254";

/// A cloud with a metadata service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloudProvider {
    /// Amazon Web Services.
    Aws,
    /// Microsoft Azure.
    Azure,
    /// Google Cloud.
    Google,
}

impl CloudProvider {
    /// All.
    pub const ALL: [CloudProvider; 3] = [CloudProvider::Aws, CloudProvider::Azure, CloudProvider::Google];

    /// `aws`, `azure`, `gcp`.
    pub fn name(self) -> &'static str {
        match self {
            CloudProvider::Aws => "aws",
            CloudProvider::Azure => "azure",
            CloudProvider::Google => "gcp",
        }
    }

    /// The service, as who told something.
    pub fn service_name(self) -> &'static str {
        match self {
            CloudProvider::Aws => "AWS instance metadata",
            CloudProvider::Azure => "Azure instance metadata",
            CloudProvider::Google => "Google metadata",
        }
    }

    /// Recognizes the cloud of this machine by what its firmware says (`class/dmi/id` below `sys`): no request is made.
    /// `None` on any other machine, and where the firmware cannot be read.
    pub fn of_machine(sys: &Path) -> Option<CloudProvider> {
        let read = |name: &str| {
            let text = std::fs::read_to_string(sys.join("class/dmi/id").join(name)).unwrap_or_default();
            text.trim().to_owned()
        };
        let (vendor, product) = (read("sys_vendor"), read("product_name"));
        if vendor == "Amazon EC2" || read("bios_version").ends_with("amazon") {
            return Some(CloudProvider::Aws);
        }
        if vendor == "Google" && product == "Google Compute Engine" {
            return Some(CloudProvider::Google);
        }
        // the tag of every machine of Azure, and of no other of Hyper-V
        let is_azure = read("chassis_asset_tag") == "7783-7084-3265-9085-8269-3286-77";
        (is_azure && vendor == "Microsoft Corporation").then_some(CloudProvider::Azure)
    }
}

/// What a service told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InstanceMetadata {
    /// Type of the instance; empty where it was not told.
    pub instance_type: String,
    /// Its volumes, where the service tells their types.
    pub volumes: Vec<MetadataVolume>,
}

/// A volume as a service describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetadataVolume {
    /// Where the machine has it.
    pub place: VolumePlace,
    /// Its type, in the provider's words: `Premium_LRS`, `PERSISTENT-SSD`.
    pub type_name: String,
    /// Its size, bytes.
    pub size_bytes: Option<u64>,
    /// Operations per second that were bought.
    pub iops: Option<f64>,
    /// Bytes per second that were bought.
    pub bytes_per_s: Option<f64>,
}

/// Where a machine has a volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum VolumePlace {
    /// The disk of the operating system of Azure.
    #[default]
    AzureSystem,
    /// A data disk of Azure: its logical unit number.
    AzureUnit(u32),
    /// A disk of Google: its device name.
    GoogleDevice(String),
}

/// Why a service told nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{service}: {because}")]
pub struct MetadataError {
    /// The service.
    pub service: &'static str,
    /// The reason.
    pub because: String,
}

/// Client of the metadata service of a cloud.
pub struct MetadataService {
    provider: CloudProvider,
    base: String,
    agent: Agent,
}

impl MetadataService {
    /// Creates a client. `base` is an address for tests instead of the service's own; nothing is asked yet.
    ///
    /// # Errors
    /// When the address is neither link-local nor the loopback.
    pub fn new(provider: CloudProvider, base: Option<&str>) -> Result<MetadataService, MetadataError> {
        let base = base.unwrap_or(LINK_LOCAL_ADDRESS).trim_end_matches('/').to_owned();
        if !is_local_address(&base) {
            let because = format!("`{base}` is no link-local address; the service is at {LINK_LOCAL_ADDRESS}");
            return Err(MetadataError { service: provider.service_name(), because });
        }
        let config = Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .http_status_as_error(false)
            // neither a redirect nor a proxy may carry the request to another address
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("diskwright/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(MetadataService { provider, base, agent: config.into() })
    }

    /// Asks for the type of the instance and for its volumes.
    ///
    /// # Errors
    /// When the service does not answer within a second, refuses, or answers something else.
    pub fn ask(&self) -> Result<InstanceMetadata, MetadataError> {
        match self.provider {
            CloudProvider::Aws => self.ask_aws(),
            CloudProvider::Azure => {
                let header = [("Metadata", "true")];
                let text = self.get("/metadata/instance/compute?api-version=2021-02-01&format=json", &header)?;
                parse_azure_compute(&text).map_err(|because| self.error(because))
            }
            CloudProvider::Google => {
                let header = [("Metadata-Flavor", "Google")];
                let kind = self.get("/computeMetadata/v1/instance/machine-type", &header)?;
                let disks = self.get("/computeMetadata/v1/instance/disks/?recursive=true", &header)?;
                Ok(InstanceMetadata {
                    instance_type: parse_machine_type(&kind).map_err(|because| self.error(because))?,
                    volumes: parse_google_disks(&disks).map_err(|because| self.error(because))?,
                })
            }
        }
    }

    /// Version 2 wants a token that a request of another kind fetches, so that no proxy can be tricked into it.
    fn ask_aws(&self) -> Result<InstanceMetadata, MetadataError> {
        let request = self.agent.put(format!("{}/latest/api/token", self.base));
        let answer = request.header("X-aws-ec2-metadata-token-ttl-seconds", "60").send_empty();
        let token = self.read_answer(answer)?;
        let header = [("X-aws-ec2-metadata-token", token.trim())];
        let kind = self.get("/latest/meta-data/instance-type", &header)?;
        let instance_type = parse_machine_type(&kind).map_err(|because| self.error(because))?;
        Ok(InstanceMetadata { instance_type, volumes: Vec::new() })
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Result<String, MetadataError> {
        let request = self.agent.get(format!("{}{path}", self.base));
        self.read_answer(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).call())
    }

    fn read_answer(
        &self,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<String, MetadataError> {
        let mut answer = answer.map_err(|error| self.error(format!("no answer ({error})")))?;
        if !answer.status().is_success() {
            return Err(self.error(format!("HTTP {}", answer.status().as_u16())));
        }
        let body = answer.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_string();
        body.map_err(|error| self.error(format!("its answer could not be read ({error})")))
    }

    fn error(&self, because: String) -> MetadataError {
        MetadataError { service: self.provider.service_name(), because }
    }
}

/// True for an address over plain HTTP that never leaves the machine or its link: by number, so that no name has to be
/// resolved.
fn is_local_address(base: &str) -> bool {
    let Ok(uri) = base.parse::<Uri>() else { return false };
    let is_plain = uri.scheme_str() == Some("http") && uri.authority().is_some_and(|a| !a.as_str().contains('@'));
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_local = match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_link_local(),
        Ok(IpAddr::V6(address)) => {
            // fd00:ec2::254 is that of AWS
            address.is_loopback() || address.is_unicast_link_local() || address.segments()[..2] == [0xfd00, 0xec2]
        }
        Err(_) => false,
    };
    is_plain && is_local
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_link_are_asked() {
        let good = ["http://169.254.169.254", "http://127.0.0.1:8080", "http://[fd00:ec2::254]", "http://[::1]:80"];
        good.iter().for_each(|base| assert!(is_local_address(base), "{base}"));
        let bad = [
            "http://192.0.2.1",
            "https://169.254.169.254",
            "http://metadata.google.internal",
            "http://169.254.169.254@192.0.2.1",
            "http://u@169.254.169.254",
            "http://[2001:db8::1]",
            "169.254.169.254",
            "",
        ];
        bad.iter().for_each(|base| assert!(!is_local_address(base), "{base}"));
        let error = MetadataService::new(CloudProvider::Aws, Some("http://192.0.2.1")).err().unwrap();
        assert!(error.to_string().starts_with("AWS instance metadata: `http://192.0.2.1` is no link-local"), "{error}");
    }

    #[test]
    fn a_cloud_is_recognized_by_the_firmware_alone() {
        let of = |facts: &[(&str, &str)]| {
            let sys = tempfile::tempdir().unwrap();
            let folder = sys.path().join("class/dmi/id");
            std::fs::create_dir_all(&folder).unwrap();
            facts.iter().for_each(|(name, text)| std::fs::write(folder.join(name), format!("{text}\n")).unwrap());
            CloudProvider::of_machine(sys.path())
        };
        assert_eq!(of(&[("sys_vendor", "Amazon EC2")]), Some(CloudProvider::Aws));
        assert_eq!(of(&[("bios_version", "4.11.amazon"), ("sys_vendor", "Xen")]), Some(CloudProvider::Aws));
        let google = [("sys_vendor", "Google"), ("product_name", "Google Compute Engine")];
        assert_eq!(of(&google), Some(CloudProvider::Google));
        assert_eq!(of(&[("sys_vendor", "Google"), ("product_name", "Volteer")]), None, "a laptop");
        let tag = ("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77");
        assert_eq!(of(&[("sys_vendor", "Microsoft Corporation"), tag]), Some(CloudProvider::Azure));
        assert_eq!(of(&[("sys_vendor", "Microsoft Corporation")]), None, "Hyper-V at home");
        assert_eq!(of(&[("sys_vendor", "QEMU")]), None);
        assert_eq!(CloudProvider::of_machine(Path::new("/nonexistent")), None);
    }
}
