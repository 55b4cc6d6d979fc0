//! Expected output of tests, in files under `tests/expected`. With
//! `DISKWRIGHT_BLESS=1` a test rewrites them instead of comparing.

use std::path::Path;

/// Asserts the same of a page, with each opening tag on a line of its own, so that differences are easy to see.
pub(crate) fn assert_expected_page(name: &str, page: &str) {
    assert_expected(name, &page.replace("><", ">\n<").replace(">\n</", "></"));
}

/// Asserts that `actual` equals the file `tests/expected/NAME`.
pub(crate) fn assert_expected(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected").join(name);
    if std::env::var_os("DISKWRIGHT_BLESS").is_some_and(|v| v == "1") {
        std::fs::create_dir_all(path.parent().expect("has a folder")).expect("can make the folder");
        std::fs::write(&path, actual).expect("can write the expectation");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if expected != actual {
        let index = expected.lines().zip(actual.lines()).position(|(e, a)| e != a);
        let line = index.unwrap_or_else(|| expected.lines().count().min(actual.lines().count()));
        panic!(
            "{name} differs from line {}:\n  expected: {:?}\n  actual:   {:?}\n{actual}\n\
             look at it, then run with DISKWRIGHT_BLESS=1",
            line + 1,
            expected.lines().nth(line),
            actual.lines().nth(line)
        );
    }
}
