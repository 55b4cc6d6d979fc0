//! A page of somebody's that takes JSON by POST: an alert, for example.

use std::time::Duration;

use crate::access::{StoreAccess, StoreAddress};
use crate::client::MetricStore;
use crate::error::RemoteError;

/// The longest that one request may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where JSON is sent to.
pub struct Webhook(MetricStore);

impl Webhook {
    /// The address is checked; nothing is sent yet.
    ///
    /// # Errors
    /// When the address is malformed.
    pub fn new(url: &str) -> Result<Webhook, RemoteError> {
        let access = StoreAccess { timeout: PATIENCE, ..StoreAccess::new(url) };
        let address = StoreAddress::parse(url)?.with_last_slashes(url);
        Ok(Webhook(MetricStore::located(address, &access)?))
    }

    /// Sends a document.
    ///
    /// # Errors
    /// When nobody takes it within ten seconds.
    pub fn send(&self, json: &str) -> Result<(), RemoteError> {
        self.0.send("", &[("Content-Type", "application/json")], json.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_sent_to_as_it_is_written() {
        for url in ["http://h/hook/", "http://h/hook", "http://h/a/b/?token=x", "http://h", "https://h:1/"] {
            let address = StoreAddress::parse(url).ok().unwrap().with_last_slashes(url);
            assert_eq!(format!("{}{}", address.base, address.query), url);
        }
        assert_eq!(Webhook::new("http://u:secret@h/hook/").ok().unwrap().0.shown(), "http://h/hook/");
    }
}
