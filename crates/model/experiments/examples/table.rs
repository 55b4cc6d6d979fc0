//! Prints the rows of some documents, or of all, with the simulated values and the means: the loop of somebody who
//! refines a description or the simulator, without a build of the whole program.
//!
//!     cargo run -p diskwright-experiments --example table -- 001 003

#![allow(clippy::disallowed_macros, reason = "an example prints its table")]

use diskwright_experiments::document::RowUse;
use diskwright_experiments::judge::{DocumentSummary, RowOutcome};
use diskwright_experiments::{data, run, simulate};

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let documents = data::load_documents().expect("the built-in documents are valid");
    let mut all: Vec<RowOutcome> = Vec::new();
    for document in documents.iter().filter(|document| wanted.is_empty() || wanted.contains(&document.doc)) {
        let outcomes = run::simulate_document(&simulate::built_in_runner(2), document, |_| true);
        for outcome in &outcomes {
            print_row(&document.doc, outcome);
        }
        all.extend(outcomes);
        print_means(&document.doc, &all.iter().filter(|outcome| outcome.doc == document.doc).collect::<Vec<_>>());
    }
    print_means("all", &all.iter().collect::<Vec<_>>());
}

fn print_row(doc: &str, outcome: &RowOutcome) {
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.4}"));
    let mark = if outcome.is_worse_than_naive() == Some(true) { "worse than naive" } else { "" };
    let shape = outcome.holds.map_or(String::new(), |(held, of)| format!("{held} of {of} hold"));
    let usage = if outcome.usage == RowUse::Predict { "" } else { outcome.usage.name() };
    println!(
        "{doc} {:<16} simulated {:>9}  error {:>8}  naive {:>8}  {usage} {shape}{mark} {}",
        outcome.id,
        number(outcome.simulated),
        number(outcome.error),
        number(outcome.baseline_error),
        outcome.failure.as_deref().unwrap_or_default(),
    );
}

fn print_means(name: &str, outcomes: &[&RowOutcome]) {
    let summary = DocumentSummary::from_outcomes(name, outcomes);
    let (worse, with_naive) = summary.worse_than_naive;
    let (held, shapes) = summary.shapes;
    let (gains, others) = (summary.gains, summary.others);
    println!("{name}: gains {:.2} points of {}, naive {:.2}", gains.error, gains.simulated, gains.baseline_error);
    let (error, naive) = (others.error * 100.0, others.baseline_error * 100.0);
    println!("{name}: others {error:.2} % of {}, naive {naive:.2} %", others.simulated);
    println!("{name}: {worse} of {with_naive} worse than naive, {held} of {shapes} shapes");
}
