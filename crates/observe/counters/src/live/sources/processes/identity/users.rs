//! Names and home folders of users, from `/etc/passwd`.

use std::collections::HashMap;

use crate::live::Roots;
use crate::live::open_file::read_bytes;

/// Largest number of users that are remembered.
const MAX_USERS: usize = 4096;
/// Number of ids without a name after which the file is read again.
const UNKNOWN_UNTIL_READ: u32 = 256;

/// The users of this machine; the file is read when the first name is needed.
#[derive(Debug, Default)]
pub(super) struct UserNames {
    users: Option<HashMap<u32, (String, String)>>,
    unknown: u32,
}

impl UserNames {
    /// Name of a user, or the number. In a container only root is certain: its file of users is another one.
    pub fn name_of(&mut self, roots: &Roots, user: Option<u32>, is_contained: bool) -> Option<String> {
        let user = user?;
        if is_contained {
            return Some(if user == 0 { "root".to_owned() } else { user.to_string() });
        }
        Some(self.find(roots, user).map_or_else(|| user.to_string(), |(name, _)| name.clone()))
    }

    /// Home folder of a user.
    pub fn home_of(&mut self, roots: &Roots, user: u32) -> Option<String> {
        self.find(roots, user).map(|(_, home)| home.clone())
    }

    fn find(&mut self, roots: &Roots, user: u32) -> Option<&(String, String)> {
        let is_known = self.users.as_ref().is_some_and(|users| users.contains_key(&user));
        // a user may be new; one of a directory service is never in the file
        if self.users.is_none() || !is_known && self.unknown.is_multiple_of(UNKNOWN_UNTIL_READ) {
            let text = read_bytes(&roots.resolve_path("/etc/passwd")).unwrap_or_default();
            self.users = Some(parse_passwd(&String::from_utf8_lossy(&text)));
        }
        self.unknown += u32::from(!is_known);
        self.users.as_ref()?.get(&user)
    }
}

/// Name and home folder of each user, by id; the first line of an id counts.
fn parse_passwd(text: &str) -> HashMap<u32, (String, String)> {
    let mut users = HashMap::new();
    for line in text.lines().take(MAX_USERS) {
        let fields: Vec<&str> = line.split(':').collect();
        let Some(user) = fields.get(2).and_then(|id| id.parse().ok()) else { continue };
        let home = fields.get(5).copied().unwrap_or_default();
        users.entry(user).or_insert_with(|| (fields[0].to_owned(), home.to_owned()));
    }
    users
}
