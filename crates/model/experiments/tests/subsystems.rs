//! Rows of SAS 1998 (the sort) and InfoStor 1999 (the RAID subsystem) stay close to the published values.

use diskwright_experiments::document::ExperimentDocument;
use diskwright_experiments::judge::RowOutcome;
use diskwright_experiments::{data, run, simulate};

fn simulate_rows(doc: &str, wanted: &[&str]) -> (ExperimentDocument, Vec<RowOutcome>) {
    let documents = data::load_documents().expect("data");
    let document = documents.into_iter().find(|d| d.doc == doc).expect("the document");
    let outcomes =
        run::simulate_document(&simulate::built_in_runner(2), &document, |row| wanted.contains(&row.id.as_str()));
    (document, outcomes)
}

#[test]
fn the_raid_10_subsystem_is_predicted() {
    let (_, outcomes) = simulate_rows("004", &["M36", "M37", "M38.settled"]);
    let simulated = |index: usize| outcomes[index].simulated.unwrap_or_else(|| panic!("{:?}", outcomes[index].failure));
    assert!((34.0..36.0).contains(&simulated(0)), "{}", simulated(0));
    assert!(simulated(1).abs() < 5.0, "{}", simulated(1));
    assert!((3600.0..4400.0).contains(&simulated(2)), "{}", simulated(2));
    // a working set that fits the cache shows less than the long queues of the arms
    assert!(outcomes[2].error.expect("an error") * 2.0 < outcomes[2].baseline_error.expect("a baseline"));
}

#[test]
fn the_sort_is_predicted() {
    let (_, outcomes) = simulate_rows("000", &["M25", "M32a", "M29c", "M31", "M32b", "M34"]);
    let simulated = |index: usize| outcomes[index].simulated.unwrap_or_else(|| panic!("{:?}", outcomes[index].failure));
    // one drive; 2 to 4 drives in RAID 0; two sets; in memory, with enough and with too little of it
    let near = [(82.0, 90.0), (0.0, 10.0), (55.0, 68.0), (39.0, 40.5), (46.0, 54.0)];
    for (index, (min, max)) in near.into_iter().enumerate() {
        assert!((min..=max).contains(&simulated(index)), "{}: {}", outcomes[index].id, simulated(index));
    }
    // small sort sizes beat 2 MB and 64 MB, and sorting in memory beats them all
    assert_eq!(outcomes[5].holds, Some((3, 3)));
}
