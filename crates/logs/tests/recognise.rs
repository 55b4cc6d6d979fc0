//! Each fixture is recognised by the one format that its file name begins
//! with (`perfmon-text.csv`, `perfmon-text_german.csv`), and by no other.

use std::path::Path;

use diskwright_logs::{FORMATS, LogInput};

#[test]
fn each_fixture_is_of_one_format() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let wanted = name.split(['.', '_']).next().unwrap();
        let input = LogInput::open(&path).unwrap();
        let found: Vec<&str> = FORMATS.iter().filter(|f| (f.recognise)(&input.head())).map(|f| f.id).collect();
        assert_eq!(found, [wanted], "{name}");
        seen += 1;
    }
    assert!(seen > 0, "no fixture");
}

#[test]
fn nothing_of_another_kind_is_recognised() {
    let texts =
        ["", "\n\n", "hello, world\n", "{}", "{\"sysstat\": 1}", "<html></html>", "a;b;c\n1;2;3\n", "12:00:00\n"];
    for text in texts {
        let input = LogInput::from_bytes("x", text.as_bytes().to_vec()).unwrap();
        let found: Vec<&str> = FORMATS.iter().filter(|f| (f.recognise)(&input.head())).map(|f| f.id).collect();
        assert!(found.is_empty(), "{text}: {found:?}");
    }
}
