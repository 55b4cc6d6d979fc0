//! The simulator's predictions: every row with a measure can be simulated, fit rows are met, and the predicted rows
//! reach the goals.

use diskwright_experiments::document::RowUse;
use diskwright_experiments::judge::{DocumentSummary, RowOutcome};
use diskwright_experiments::{data, run, simulate};

fn simulate_outcomes(doc: &str) -> Vec<RowOutcome> {
    let documents = data::load_documents().expect("data");
    let document = documents.iter().find(|d| d.doc == doc).expect("there");
    let outcomes = run::simulate_document(&simulate::built_in_runner(2), document, |_| true);
    for outcome in &outcomes {
        let row = document.find_row(&outcome.id).expect("there");
        let failure = outcome.failure.as_deref().unwrap_or_default();
        assert!(row.measure.is_none() || outcome.simulated.is_some(), "{}: {failure}", outcome.id);
        assert!(row.holds.is_empty() || outcome.holds.is_some(), "{}: {failure}", outcome.id);
    }
    outcomes
}

#[test]
fn predicts_document_003() {
    let outcomes = simulate_outcomes("003");
    for outcome in outcomes.iter().filter(|o| o.usage == RowUse::Fit) {
        assert!(outcome.error.is_some_and(|error| error < 0.01), "{outcome:?}");
    }
    let summary = DocumentSummary::from_outcomes("003", &outcomes.iter().collect::<Vec<_>>());
    assert_eq!((summary.others.simulated, summary.others.rows), (23, 23));
    assert!(summary.others.error < 0.10, "{summary:?}");
    assert!(summary.others.error_where_baseline < summary.others.baseline_error / 2.0, "{summary:?}");
    // S10.three falls a little less than half of print's step
    assert!(summary.shapes.0 >= 3 && summary.shapes.1 == 4, "{summary:?}");
}

/// Checks that the numbers do not depend on the number of threads.
#[test]
fn results_do_not_depend_on_the_thread_count() {
    let documents = data::load_documents().expect("data");
    let document = documents.iter().find(|d| d.doc == "003").expect("there");
    let wanted = |row: &diskwright_experiments::document::PublishedRow| row.matches_id("S5") || row.matches_id("M9");
    let run = |threads| run::simulate_document(&simulate::built_in_runner(threads), document, wanted);
    assert_eq!(run(1), run(3));
}
