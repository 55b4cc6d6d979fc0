//! `explain`, `list` and the values of options as people type them, with typing errors.

use crate::common::diskwright;

/// Standard output of a command that must succeed.
fn run_successfully(arguments: &[&str]) -> String {
    let done = diskwright(arguments);
    assert_eq!(done.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Standard error of a command that must exit with this code and print nothing else.
fn expect_refusal(arguments: &[&str], code: i32) -> String {
    let done = diskwright(arguments);
    assert_eq!(done.status.code(), Some(code), "{arguments:?}");
    assert!(done.stdout.is_empty(), "{arguments:?}");
    String::from_utf8_lossy(&done.stderr).into_owned()
}

#[test]
fn explains_common_terms_on_one_page() {
    for (word, wanted) in [
        ("PSI", "pressure.io_some"),
        ("svctm", "removed from"),
        ("raid5", "member I/Os"),
        ("await", "physical_disk.avg_s_per_transfer"),
        ("%util", "physical_disk.busy"),
        ("iowait", "processor.iowait"),
        ("load average", "system.load_1"),
        ("dirty pages", "memory.dirty_bytes"),
        ("fsync", "probe commit"),
        ("queue depth", "Little"),
        ("NVMe", "PCI Express"),
    ] {
        let page = run_successfully(&["explain", word]);
        assert!(page.contains(wanted), "{word}: {page}");
        assert!(page.lines().count() <= 60, "{word}: {} lines", page.lines().count());
    }
}

/// Words of the documents that have no counter, and several names at once.
#[test]
fn explains_words_of_the_documents_and_several_names() {
    for (word, wanted) in [
        ("burst rate", "sustained transfer rate"),
        ("hardware RAID", "--array"),
        ("worker threads", "max worker threads"),
        ("max async io", "32 reads"),
        ("allocation unit", "cluster"),
        ("data warehouse", "Pages/sec"),
    ] {
        let page = run_successfully(&["explain", word]);
        assert!(page.contains(wanted), "{word}: {page}");
    }
    let both = run_successfully(&["explain", "PSI", "fsync"]);
    assert!(both.contains("pressure.io_some") && both.contains("probe commit"), "{both}");
    // two words of one name are one name
    assert!(run_successfully(&["explain", "queue", "depth"]).contains("Little"));
    assert!(expect_refusal(&["explain", "PSI", "fsync", "--json"], 2).contains("one name at a time"));
    // advice of a document on Windows is in the words of Windows
    let page = run_successfully(&["explain", "sas-1998/memory.available-application-server"]);
    assert!(page.contains("services.msc") && !page.contains("systemctl") && !page.contains("smem"), "{page}");
}

#[test]
fn lists_many_matches() {
    for word in ["io", "disk", "reads", "queue", "memory", "time"] {
        let list = run_successfully(&["explain", word]);
        assert!(list.lines().count() <= 60, "{word}: {} lines", list.lines().count());
    }
    let short = run_successfully(&["explain", "disk"]);
    assert!(short.contains("more: diskwright explain --all disk"), "{short}");
    assert!(run_successfully(&["explain", "--all", "disk"]).lines().count() > short.lines().count());
    let found: serde_json::Value =
        serde_json::from_str(&run_successfully(&["explain", "PSI", "--json"])).expect("JSON");
    assert_eq!(found["schema"], "diskwright.explain/1");
    assert_eq!(found["terms"][0]["id"], "psi");
    assert!(found["matches"].as_array().is_some_and(|m| m.iter().any(|m| m["kind"] == "term")), "{found}");
}

#[test]
fn suggests_the_nearest_name_for_typing_errors() {
    let message = expect_refusal(&["explain", "iowiat"], 1);
    assert!(message.contains("did you mean `iowait`"), "{message}");
    let message = expect_refusal(&["why", "--role", "file-srever", "--for", "2s"], 2);
    assert!(message.contains("did you mean `file-server`") && message.contains("workstation"), "{message}");
    assert!(expect_refusal(&["why", "--role", "foo", "--for", "2s"], 2).contains("unknown role `foo`"));
    let message = expect_refusal(&["why", "--pack", "defualt", "--for", "2s"], 2);
    assert!(message.contains("did you mean `default`"), "{message}");
    assert!(expect_refusal(&["list", "countres"], 2).contains("counters"));
}

#[test]
fn refuses_all_packs_where_it_has_no_effect() {
    let fleet = ["why", "--prometheus", "http://127.0.0.1:9", "--fleet", "--all-packs"];
    let watch = ["watch", "a", "--once", "--all-packs"];
    let cases: [&[&str]; 4] = [&["compare", "a", "b", "--all-packs"], &watch, &["serve", "--all-packs"], &fleet];
    for case in cases {
        let message = expect_refusal(case, 2);
        assert!(message.contains("--all-packs"), "{case:?}: {message}");
    }
    for live in ["watch", "serve"] {
        let message = expect_refusal(&[live, "--role", "file-server"], 2);
        assert!(message.contains("without a role"), "{live}: {message}");
    }
}

#[test]
fn terms_are_listed() {
    assert!(run_successfully(&["list", "terms"]).contains("load average"));
}

/// Terms of the documents that are neither counters nor rules.
#[test]
fn terms_of_the_documents_are_explained() {
    for (name, word) in [
        ("raid 2", "error-correcting"),
        ("diskperf", "restart"),
        ("sortsize", "Proc Sort"),
        ("coalescing", "neighbors"),
        ("Dynameasure", "load generator"),
        ("memory leak", "never gives it back"),
        ("latency", "Rotational latency"),
    ] {
        let answer = diskwright(&["explain", name]);
        let page = String::from_utf8_lossy(&answer.stdout).into_owned();
        assert!(answer.status.success() && page.contains(word), "{name}: {page}");
    }
}
