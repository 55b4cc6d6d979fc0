//! Variants of a description: single keys of a TOML document set otherwise.

use toml::{Table, Value};

/// Sets what stands at a path of keys (`host.request`, `drives.disk.count`). A
/// segment within a list is the `name` of an entry, or its position from 0. The
/// last key may be new; everything before it must be there.
///
/// # Errors
/// Names the segment that is not there.
pub fn set(document: &mut Table, path: &str, value: Value) -> Result<(), String> {
    let (first, rest) = split(path);
    match rest {
        None => {
            document.insert(first.to_owned(), value);
            Ok(())
        }
        Some(rest) => {
            let inner = document.get_mut(first).ok_or_else(|| format!("there is no `{first}`"))?;
            set_in(inner, rest, value)
        }
    }
}

fn split(path: &str) -> (&str, Option<&str>) {
    path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)))
}

fn set_in(at: &mut Value, path: &str, value: Value) -> Result<(), String> {
    match at {
        Value::Table(table) => set(table, path, value),
        Value::Array(entries) => {
            let (first, rest) = split(path);
            let found = entry(entries, first).ok_or_else(|| format!("there is no `{first}` in the list"))?;
            match rest {
                Some(rest) => set_in(found, rest, value),
                None => {
                    *found = value;
                    Ok(())
                }
            }
        }
        _ => Err(format!("`{path}` is within what is neither a table nor a list")),
    }
}

/// The entry of a name, else of a position.
fn entry<'a>(entries: &'a mut [Value], segment: &str) -> Option<&'a mut Value> {
    let named = entries.iter().position(|e| e.get("name").and_then(Value::as_str) == Some(segment));
    let at = named.or_else(|| segment.parse().ok())?;
    entries.get_mut(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(path: &str, value: impl Into<Value>) -> Result<Table, String> {
        let text =
            "[host]\nrequest = 1\n[[drives]]\nname = \"disk\"\ncount = 1\n[[drives]]\nname = \"log\"\nsizes = [1, 2]\n";
        let mut document: Table = text.parse().unwrap();
        set(&mut document, path, value.into()).map(|()| document)
    }

    #[test]
    fn keys_of_tables_and_lists() {
        assert_eq!(after("host.request", 7).unwrap()["host"]["request"].as_integer(), Some(7));
        assert_eq!(after("drives.log.count", 3).unwrap()["drives"][1]["count"].as_integer(), Some(3));
        assert_eq!(after("drives.0.count", 4).unwrap()["drives"][0]["count"].as_integer(), Some(4));
        assert_eq!(after("drives.log.sizes.1", 9).unwrap()["drives"][1]["sizes"][1].as_integer(), Some(9));
        assert_eq!(after("new", "x").unwrap()["new"].as_str(), Some("x"));
    }

    #[test]
    fn what_is_not_there_is_told() {
        assert_eq!(after("hots.request", 1).unwrap_err(), "there is no `hots`");
        assert_eq!(after("drives.tape.count", 1).unwrap_err(), "there is no `tape` in the list");
        assert!(after("host.request.more", 1).unwrap_err().contains("neither a table nor a list"));
        assert!(after("drives.9", 1).is_err());
    }
}
