//! Rules whose conditions are alternatives.

use crate::common::*;

/// 150 in 12 ticks of 20 and 50 else are 110 on average: a value of 150 cannot have been there for 90 % of the time.
#[test]
fn the_share_beside_a_value_is_that_of_its_own_condition() {
    let recording = Recording::new(20).with("paging.swap_in_pages", "", |i| if i < 12 { 150.0 } else { 50.0 }).with(
        "paging.swap_out_pages",
        "",
        |i| if (12..18).contains(&i) { 300.0 } else { 0.0 },
    );
    let swapped_in = "{ counter = 'paging.swap_in_pages_per_s', above = 100 }";
    let swapped_out = "{ counter = 'paging.swap_out_pages_per_s', above = 200 }";
    let rule = |any: &str| format!("[[rule]]\nid = 'r'\nobject = 'machine'\nany = [{any}]\n");
    let verdict = recording.by(&rule(&format!("{swapped_in}, {swapped_out}")));
    let finding = only(&verdict);
    assert_eq!(finding.counter, "paging.swap_in_pages_per_s");
    near(finding.value, 150.0);
    near(finding.share, 0.9);
    near(finding.share_of_value(), 0.6);
    assert!(finding.value * finding.share_of_value() <= finding.mean.unwrap(), "{finding:?}");
    near(serde_json::to_value(finding).unwrap()["value_share"].as_f64().unwrap(), 0.6);
    assert!(verdict.sentence.contains("60 % of 20 s") && !verdict.sentence.contains("90 %"), "{}", verdict.sentence);
    // where the rule has one condition, there is one share
    let verdict = recording.by(&rule(swapped_in));
    assert_eq!((only(&verdict).value_share, only(&verdict).share), (None, 0.6));
}
