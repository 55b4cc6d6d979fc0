//! The metadata services of the clouds, by stand-ins on the loopback interface. They are no clouds: they answer as the
//! providers' documents say, and check what they are asked.

use std::io::Write;
use std::time::{Duration, Instant};

use diskwright_remote::instance_metadata::{CloudProvider, MetadataService, VolumePlace};

use crate::common::{FakeStore, http_response};

/// Stand-in for the instance metadata service of AWS, version 2: without a token it refuses.
fn aws_stand_in() -> FakeStore {
    FakeStore::start(|request, stream| {
        let head = request.head.to_ascii_lowercase();
        let answer = if head.starts_with("put /latest/api/token ") {
            let has_lifetime = head.contains("x-aws-ec2-metadata-token-ttl-seconds: 60");
            if has_lifetime {
                http_response("200 OK", "", "dG9rZW4=")
            } else {
                http_response("400 Bad Request", "", "")
            }
        } else if !head.contains("x-aws-ec2-metadata-token: dg9rzw4=") {
            http_response("401 Unauthorized", "", "")
        } else if head.starts_with("get /latest/meta-data/instance-type ") {
            http_response("200 OK", "", "m6i.large")
        } else {
            http_response("404 Not Found", "", "")
        };
        stream.write_all(&answer)
    })
}

/// Stand-in for the instance metadata service of Azure.
fn azure_stand_in() -> FakeStore {
    FakeStore::start(|request, stream| {
        let head = request.head.to_ascii_lowercase();
        let is_right =
            head.starts_with("get /metadata/instance/compute?api-version=") && head.contains("metadata: true");
        stream.write_all(&match is_right {
            true => http_response(
                "200 OK",
                "",
                r#"{"vmSize":"Standard_D8s_v5","storageProfile":{"osDisk":{"diskSizeGB":"30","managedDisk":
                    {"storageAccountType":"Premium_LRS"}},"dataDisks":[{"lun":"2","diskSizeGB":"1024","managedDisk":
                    {"storageAccountType":"Premium_LRS"}}]}}"#,
            ),
            false => http_response("400 Bad Request", "", "Required metadata header not specified"),
        })
    })
}

/// Stand-in for the metadata server of Google.
fn google_stand_in() -> FakeStore {
    FakeStore::start(|request, stream| {
        let head = request.head.to_ascii_lowercase();
        let answer = if !head.contains("metadata-flavor: google") {
            http_response("403 Forbidden", "", "")
        } else if head.starts_with("get /computemetadata/v1/instance/machine-type ") {
            http_response("200 OK", "", "projects/1/machineTypes/n2-standard-8")
        } else if head.starts_with("get /computemetadata/v1/instance/disks/?recursive=true ") {
            let disks = r#"[{"deviceName":"data","index":0,"mode":"READ_WRITE","type":"PERSISTENT-SSD"}]"#;
            http_response("200 OK", "", disks)
        } else {
            http_response("404 Not Found", "", "")
        };
        stream.write_all(&answer)
    })
}

fn service(provider: CloudProvider, store: &FakeStore) -> MetadataService {
    MetadataService::new(provider, Some(&store.url("", ""))).unwrap()
}

#[test]
fn a_stand_in_of_aws_tells_the_type_of_the_instance_for_a_token() {
    let store = aws_stand_in();
    let found = service(CloudProvider::Aws, &store).ask().unwrap();
    assert_eq!((found.instance_type.as_str(), found.volumes.len()), ("m6i.large", 0));
    assert_eq!(store.seen().len(), 2, "nothing else is asked");
}

#[test]
fn a_stand_in_of_azure_tells_size_and_disks() {
    let store = azure_stand_in();
    let found = service(CloudProvider::Azure, &store).ask().unwrap();
    assert_eq!((found.instance_type.as_str(), found.volumes.len()), ("Standard_D8s_v5", 2));
    assert_eq!(found.volumes[1].place, VolumePlace::AzureUnit(2));
    assert_eq!(found.volumes[1].size_bytes, Some(1 << 40));
}

#[test]
fn a_stand_in_of_google_tells_machine_type_and_disks_and_no_account_is_asked() {
    let store = google_stand_in();
    let found = service(CloudProvider::Google, &store).ask().unwrap();
    assert_eq!(found.instance_type, "n2-standard-8");
    assert_eq!(found.volumes[0].place, VolumePlace::GoogleDevice("data".into()));
    assert!(store.seen().iter().all(|request| !request.head.contains("service-accounts")));
}

#[test]
fn a_service_that_refuses_redirects_or_hangs_tells_nothing() {
    let refused = service(CloudProvider::Google, &azure_stand_in()).ask().unwrap_err();
    assert_eq!(refused.to_string(), "Google metadata: HTTP 400");
    let elsewhere = http_response("302 Found", "Location: http://192.0.2.1/\r\n", "");
    let redirected = service(CloudProvider::Azure, &FakeStore::with_response(elsewhere)).ask().unwrap_err();
    assert_eq!(redirected.because, "HTTP 302");
    let page = http_response("200 OK", "", "<html>a captive portal</html>");
    assert!(service(CloudProvider::Azure, &FakeStore::with_response(page)).ask().unwrap_err().because.contains("JSON"));
    let endless = FakeStore::with_endless_response("[", "1,");
    assert!(service(CloudProvider::Azure, &endless).ask().is_err(), "an answer has a limit");
    let silent = FakeStore::without_response();
    let begin = Instant::now();
    let error = service(CloudProvider::Azure, &silent).ask().unwrap_err();
    assert!(error.because.starts_with("no answer"), "{error}");
    // the limit is a second; a busy machine may be late, and a client without a limit would never come back
    assert!(begin.elapsed() < Duration::from_secs(60));
}
