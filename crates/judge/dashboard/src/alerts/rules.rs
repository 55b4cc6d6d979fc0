//! Alert rules: the built-in ones, and a user's, which add to them and replace those of the same id.

use diskwright_base::Problems;
use diskwright_diagnosis::Pack;

const BUILTIN_FILE: &str = "rules/alerts.toml";
const BUILTIN_TEXT: &str = include_str!("../../../../../rules/alerts.toml");

/// The built-in alert rules.
///
/// # Panics
/// Where our own file is wrong, which a test excludes.
pub fn builtin_alerts() -> Pack {
    Pack::load(BUILTIN_FILE, BUILTIN_TEXT).expect("our own alerts are right")
}

/// The built-in rules together with those of a user's file; `file` is its name in error messages.
///
/// # Errors
/// Everything that is wrong with it, including rules without `alert`.
pub fn builtin_with_own(file: &str, text: &str) -> Result<Pack, Problems> {
    let own = Pack::load(file, text)?;
    let without_alert = own.rules.iter().filter(|rule| rule.alert.is_none());
    let problems: Vec<diskwright_base::Problem> = without_alert
        .map(|rule| diskwright_base::Problem {
            file: file.to_owned(),
            line: rule.line,
            item: format!("rule {}", rule.id),
            message: "needs `alert = { hold = \"30s\" }`, or it never raises one".to_owned(),
        })
        .collect();
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    let mut pack = builtin_alerts();
    pack.rules.retain(|builtin| own.rules.iter().all(|rule| rule.id != builtin.id));
    pack.rules.extend(own.rules);
    for advice in own.advice {
        if pack.advice.iter().all(|known| known.id != advice.id) {
            pack.advice.push(advice);
        }
    }
    Ok(pack)
}

/// Removes the rules with these ids.
///
/// # Errors
/// An id that no rule has, with the nearest ids.
pub fn remove_rules(pack: &mut Pack, ids: &[String]) -> Result<(), String> {
    for id in ids {
        check_rule_id(pack, id)?;
    }
    pack.rules.retain(|rule| !ids.contains(&rule.id));
    Ok(())
}

/// Checks that a rule has this id.
///
/// # Errors
/// A sentence that names the nearest ids.
pub fn check_rule_id(pack: &Pack, id: &str) -> Result<(), String> {
    if pack.find_rule(id).is_some() {
        return Ok(());
    }
    let suggestion = diskwright_base::user_input::did_you_mean(id, pack.rules.iter().map(|rule| rule.id.as_str()));
    Err(format!("no alert has the id `{id}`{suggestion}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_of_ours_is_an_alert_and_says_what_to_do() {
        let pack = builtin_alerts();
        for rule in &pack.rules {
            assert!(rule.alert.is_some(), "{}", rule.id);
            let of_verdict = rule.id.starts_with("verdict.");
            assert!(of_verdict || !rule.advice.is_empty(), "{}", rule.id);
        }
    }

    #[test]
    fn own_rules_add_to_ours_and_replace_them() {
        let text = r#"
[pack]
id = "mine"
title = "mine"
source = "me"
explain = "mine"
[[rule]]
id = "pressure.io"
title = "tasks wait"
object = "machine"
bottleneck = "disk"
severity = "warning"
all = [{ counter = "pressure.io_some", above = 0.5 }]
source = "me"
explain = "mine"
alert = { hold = "5s" }
"#;
        let mut pack = builtin_with_own("mine.toml", text).unwrap();
        assert_eq!(pack.rules.len(), builtin_alerts().rules.len());
        assert_eq!(pack.find_rule("pressure.io").unwrap().alert.as_ref().unwrap().hold_s, 5.0);
        let error = remove_rules(&mut pack, &["presure.io".into()]).unwrap_err();
        assert_eq!(error, "no alert has the id `presure.io`; did you mean `pressure.io`?");
        remove_rules(&mut pack, &["pressure.io".into()]).unwrap();
        assert!(pack.find_rule("pressure.io").is_none());
        let wrong = builtin_with_own("mine.toml", &text.replace("alert =", "sustained =").replace("hold", "at_least"));
        assert!(wrong.unwrap_err().to_string().contains("never raises one"));
    }
}
