//! Sends JSON, for example an alert, to a web address by POST.

use std::time::Duration;

use crate::access::{StoreAccess, StoreAddress};
use crate::client::MetricStore;
use crate::error::RemoteError;

/// Timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Client of a web address that accepts JSON.
pub struct Webhook(MetricStore);

impl Webhook {
    /// Creates a webhook. Checks the address and sends nothing yet.
    ///
    /// # Errors
    /// When the address is malformed.
    pub fn new(url: &str) -> Result<Webhook, RemoteError> {
        let access = StoreAccess { timeout: TIMEOUT, ..StoreAccess::new(url) };
        let address = StoreAddress::parse(url)?.with_last_slashes(url);
        Ok(Webhook(MetricStore::with_address(address, &access)?))
    }

    /// Sends a document.
    ///
    /// # Errors
    /// When the receiver does not accept it within ten seconds.
    pub fn send(&self, json: &str) -> Result<(), RemoteError> {
        self.0.send("", &[("Content-Type", "application/json")], json.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_used_as_written() {
        for url in ["http://h/hook/", "http://h/hook", "http://h/a/b/?token=x", "http://h", "https://h:1/"] {
            let address = StoreAddress::parse(url).ok().unwrap().with_last_slashes(url);
            assert_eq!(format!("{}{}", address.base, address.query), url);
        }
        assert_eq!(Webhook::new("http://u:secret@h/hook/").ok().unwrap().0.shown_address(), "http://h/hook/");
    }
}
