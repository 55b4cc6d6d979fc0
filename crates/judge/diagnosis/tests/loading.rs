//! Mistakes in a pack are rejected with file, line, item and a hint; and no text makes the loader panic.

use diskwright_diagnosis::{Pack, packs};

const HEAD: &str = "[pack]\nid = 'x'\ntitle = 't'\nsource = 's'\nexplain = 'e'\n\n";
const RULE: &str = "[[rule]]\nid = 'disk.q'\ntitle = 't'\nobject = 'physical_disk'\nbottleneck = 'disk'\n\
    severity = 'critical'\nsource = 's'\nexplain = 'e'\n";
const CONDITION: &str = "all = [{ counter = 'busy', above = 0.5 }]\n";

fn error(text: &str) -> String {
    Pack::load("rules/x.toml", text).unwrap_err().to_string()
}

/// The error of a rule whose last line is the wrong one; lines are those of the file.
fn rule_error(line: &str) -> String {
    error(&format!("{HEAD}{RULE}{line}\n"))
}

#[test]
fn a_right_pack_is_read() {
    let pack = Pack::load("rules/x.toml", &format!("{HEAD}{RULE}{CONDITION}")).unwrap();
    let rule = pack.find_rule("disk.q").unwrap();
    assert_eq!((rule.line, rule.sustained.share, rule.weight), (7, 0.5, 1.0));
}

#[test]
fn errors_name_file_line_item_and_what_was_meant() {
    let table = [
        (
            "all = [{ counter = 'busy', abvoe = 0.5 }]",
            "rules/x.toml:15: rule disk.q: unknown key `abvoe`; did you mean `above`?",
        ),
        (
            "all = [{ counter = 'buzy', above = 0.5 }]",
            "rules/x.toml:15: rule disk.q: unknown counter `buzy`; did you mean `busy`?",
        ),
        (
            "all = [{ counter = 'memory.availble_bytes', above = 5 }]",
            "rules/x.toml:15: rule disk.q: unknown counter `memory.availble_bytes`; did you mean \
             `memory.available_bytes`?",
        ),
        ("all = [{ above = 0.5 }]", "rules/x.toml:15: rule disk.q: a condition needs a `counter`"),
        (
            "all = [{ counter = 'busy' }]",
            "rules/x.toml:15: rule disk.q: the limit is missing: one of `above`, `at_least`, `below`, `at_most`",
        ),
        (
            "all = [{ counter = 'busy', above = 0.5, below = 0.9 }]",
            "rules/x.toml:15: rule disk.q: both `above` and `below`: one condition has one limit",
        ),
        (
            "all = [{ counter = 'busy', above = 85 }]",
            "rules/x.toml:15: rule disk.q: physical_disk.busy is a fraction, so 85 cannot be its limit; write 0.85 \
             for 85 %",
        ),
        (
            "all = [{ counter = 'busy', above = 'reads_per_s' }]",
            "rules/x.toml:15: rule disk.q: physical_disk.busy is in fraction, but physical_disk.reads_per_s is in \
             per_s",
        ),
        (
            "all = [{ counter = 'bytes_per_s', plus = ['reads_per_s'], above = 1 }]",
            "rules/x.toml:15: rule disk.q: `plus`: physical_disk.reads_per_s is in per_s, physical_disk.bytes_per_s in \
             bytes_per_s",
        ),
        (
            "all = [{ counter = 'busy', per = 'spindel', above = 0.5 }]",
            "rules/x.toml:15: rule disk.q: `per` cannot be `spindel`; expected spindle, processor; did you mean \
             `spindle`?",
        ),
    ];
    check(&table);
}

#[test]
fn errors_in_conditions_and_words() {
    let table = [
        ("all = [{ counter = 'busy', above = true }]", "`above` must be a number or a counter"),
        ("all = [{ counter = 'busy', above = nan }]", "`above` must be a number or a counter"),
        ("all = [{ counter = 3, above = 1 }]", "`counter` must be a string, not an integer"),
        ("all = [3]", "rules/x.toml:15: rule disk.q: expected a table"),
        ("all = 3", "rules/x.toml:15: rule disk.q: `all` is an integer; write it as [[all]]"),
        ("all = []", "a rule needs conditions in `all` or `any`"),
        ("all = [{ counter = 'busy', over = 0, above = 1 }]", "`over` is zero"),
        ("all = [{ counter = 'busy', limit_times = 2, above = 1 }]", "`limit_times` goes with a counter as the limit"),
        ("all = [{ counter = 'busy', each = 'member', above = 1 }]", "`each` cannot be `member`; expected disk"),
        ("all = [{ counter = 'busy', each = 'disk', above = 'spindles' }]", "`each` goes with a number as the limit"),
        (
            "all = [{ counter = 'busy', each = 'disk', trend = true, above = 1 }]",
            "`each` goes with a quantity of each tick",
        ),
        ("all = [{ counter = 'busy', trend = false, above = 1 }]", "`trend` can only be true"),
        (
            "all = [{ counter = 'busy', trend = true, steadiness = true, above = 1 }]",
            "`change`, `steadiness`, `trend` and `runs_out` exclude each other",
        ),
        (
            "all = [{ counter = 'busy', change = { against = 'end' }, above = 1 }]",
            "`against` cannot be `end`; expected start, previous",
        ),
        ("any = [{ counter = 'busy', trend = true, above = 1 }]", "belongs in `all`"),
        ("all = [{ counter = 'busy', above = 'light_load_s' }]", "is of the whole window: only a `counter`"),
        ("all = [{ counter = 'process.processor', above = 1 }]", "unknown counter `process.processor`"),
        ("which = 'leef'", "`which` cannot be `leef`; expected leaf, single, set, stacked, all, total; did you mean"),
        ("classes = ['rust']", "`classes` cannot be `rust`"),
        ("weight = 3", "`weight` is 3; expected 0 to 2"),
        ("weight = 'much'", "`weight` must be a number, not a string"),
    ];
    check(&table);
}

fn check(table: &[(&str, &str)]) {
    for (line, expected) in table {
        let error = rule_error(line);
        assert!(error.contains(expected), "{line}\n   {error}\n   {expected}");
        assert!(error.starts_with("rules/x.toml:"), "{error}");
    }
}

#[test]
fn errors_behind_a_right_condition() {
    let table = [
        ("sustained = { share = 5 }", "`share` is 5; expected 0 to 1"),
        ("sustained = { at_least = '5x' }", "invalid duration `5x`"),
        ("sustained = { atleast = '5s' }", "unknown key `atleast`; did you mean `at_least`?"),
        ("evidence = ['busi']", "unknown counter `busi`; did you mean `busy`?"),
        ("advice = ['disk.more-spindels']", "unknown advice `disk.more-spindels`; did you mean `disk.more-spindles`?"),
        ("none = ['disk.r']", "`none` names no rule of this pack: `disk.r`; did you mean `disk.q`?"),
        ("none = ['disk.q']", "`none` leads back to this rule in a circle"),
        ("roles = 3", "`roles` must be a string or a list of strings, not an integer"),
        ("absent = 'maybe'", "`absent` cannot be `maybe`; expected unjudged, inapplicable"),
        ("colour = 'red'", "unknown key `colour`"),
    ];
    for (line, expected) in table {
        let error = rule_error(&format!("{CONDITION}{line}"));
        assert!(error.contains(expected), "{line}\n   {error}\n   {expected}");
    }
}

/// Whoever writes rules sees every mistake at once.
#[test]
fn all_mistakes_of_a_pack_are_told() {
    let first =
        format!("{}all = [{{ counter = 'buzy', abvoe = 1 }}, 3]\nweight = 9\n", RULE.replace("'critical'", "5"));
    let second = format!("{}{CONDITION}none = ['disk.z']\nadvice = ['nobody']\n", RULE.replace("disk.q", "disk.r"));
    let message = error(&format!("{HEAD}titel = 1\n{first}{second}[[advice]]\nid = 'x'\ncost = 77\n"));
    let parts = [
        ":7: [pack]: unknown key `titel`; did you mean `title`?",
        ":13: rule disk.q: `severity` must be a string, not an integer",
        ":16: rule disk.q: unknown counter `buzy`; did you mean `busy`?",
        ":16: rule disk.q: unknown key `abvoe`; did you mean `above`?",
        ":16: rule disk.q: expected a table, found an integer",
        ":17: rule disk.q: `weight` is 9; expected 0 to 2",
        ":28: rule disk.r: unknown advice `nobody`",
        ":29: advice x: `source` is missing; example: source = \"ours\"",
        ":29: advice x: `text` is missing; example: text = \"Add a disk.\"",
        ":31: advice x: `cost` is 77; expected a whole number from 1 to 9",
    ];
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines.len(), parts.len(), "{message}");
    for part in parts {
        assert!(lines.iter().any(|line| *line == format!("rules/x.toml{part}")), "{part}\n{message}");
    }
}

#[test]
fn errors_of_the_whole_file() {
    assert_eq!(error(""), "rules/x.toml:1: the [pack] table is missing");
    assert_eq!(error(HEAD), "rules/x.toml:1: [pack]: the pack has no [[rule]]");
    assert!(error("[pack]\nid = \n").starts_with("rules/x.toml:2: "), "{}", error("[pack]\nid = \n"));
    let twice = format!("{HEAD}{RULE}{CONDITION}{RULE}{CONDITION}");
    assert_eq!(error(&twice), "rules/x.toml:16: rule disk.q: a second rule with this id; the first is on line 7");
    let top = format!("{HEAD}{RULE}{CONDITION}[rules]\n");
    assert_eq!(error(&top), "rules/x.toml:16: unknown key `rules`; did you mean `rule`?");
    let object = format!("{HEAD}{}{CONDITION}", RULE.replace("physical_disk", "phsical_disk"));
    assert!(
        error(&object).contains("unknown object `phsical_disk`; did you mean `physical_disk`?"),
        "{}",
        error(&object)
    );
    let set = format!("{HEAD}{}which = 'set'\n{CONDITION}", RULE.replace("physical_disk", "network"));
    assert!(error(&set).contains("`which` is set or stacked only for physical_disk"));
}

#[test]
fn a_pack_may_bring_its_own_advice() {
    let own = "advice = ['house.rule']\n[[advice]]\nid = 'house.rule'\ntext = 'Ask.'\nsource = 'ours'\ncost = 1\n";
    let pack = Pack::load("mine.toml", &format!("{HEAD}{RULE}{CONDITION}{own}")).unwrap();
    assert_eq!(pack.advice[0].text, "Ask.");
}

/// The entry that the fuzz target calls, run briefly over what is likely to
/// hurt: every pack cut at many places, with bytes flipped and lines swapped.
#[test]
fn no_text_makes_the_loader_panic() {
    let mut seed = 7u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below.max(1)
    };
    for (_, file, text) in packs::BUILTIN_PACKS {
        let sample: String = text.lines().take(60).map(|l| format!("{l}\n")).collect();
        for _ in 0..150 {
            let mut bytes = sample.clone().into_bytes();
            for _ in 0..1 + random(4) {
                let position = random(bytes.len());
                match random(4) {
                    0 => bytes.truncate(position),
                    1 => bytes.insert(position, b"{}[]'\"=,.\n\\#0e-_"[random(16)]),
                    2 if position < bytes.len() => bytes[position] = random(256) as u8,
                    _ if position < bytes.len() => drop(bytes.remove(position)),
                    _ => {}
                }
            }
            let text = String::from_utf8_lossy(&bytes);
            if let Err(errors) = Pack::load(file, &text) {
                let lines = 1..=1 + text.lines().count();
                assert!(!errors.0.is_empty() && errors.0.iter().all(|e| lines.contains(&e.line)), "{errors}");
            }
        }
    }
    for text in ["\u{feff}", "[[rule]]", "rule = 1", "pack = 2\nrule = [[]]", "[pack]\nid = '\\u0000'", "a.b.c = 1"] {
        assert!(Pack::load("x.toml", text).is_err());
    }
    let deep = format!("a = {}", "[".repeat(100_000));
    assert!(Pack::load("x.toml", &deep).is_err());
}

/// Users of the default pack never see advice that none of its rules names.
#[test]
fn every_advice_belongs_to_a_rule_of_the_default_pack() {
    let rules = include_str!("../../../../rules/default.toml");
    let advice = include_str!("../../../../rules/advice.toml");
    let ids = advice.lines().filter_map(|line| line.strip_prefix("id = "));
    let unnamed: Vec<&str> = ids.filter(|id| !rules.contains(id)).collect();
    assert!(unnamed.is_empty(), "{unnamed:?}");
}

/// An array that lacks a member may not lose another one, so that no rule about it advises to take one out.
#[test]
fn an_array_that_lacks_a_member_keeps_the_others() {
    let packs = [
        include_str!("../../../../rules/default.toml"),
        include_str!("../../../../rules/alerts.toml"),
        include_str!("../../../../rules/awesome-prometheus-alerts.toml"),
        include_str!("../../../../rules/netdata.toml"),
        include_str!("../../../../rules/node-mixin.toml"),
    ];
    let lacks_one = |rule: &&str| ["missing", "degraded", "failed"].iter().any(|name| rule.contains(&is_above(name)));
    let mut seen = 0;
    for rule in packs.iter().flat_map(|pack| pack.split("[[rule]]")).filter(lacks_one) {
        assert!(!rule.contains("disk.replace-slow-member") && rule.contains("array.replace-missing"), "{rule}");
        seen += 1;
    }
    assert!(seen >= packs.len(), "{seen}");
}

fn is_above(name: &str) -> String {
    format!("counter = \"{name}\", above = 0")
}

/// A drive beyond its rated life may work as before (smartmontools, issue 537): it is no failing one.
#[test]
fn a_worn_drive_is_not_advised_as_a_failing_one() {
    let pack = Pack::load("default.toml", include_str!("../../../../rules/default.toml")).unwrap();
    assert_eq!(pack.find_rule("disk.worn").unwrap().advice, ["disk.plan-replacement"]);
    assert!(pack.find_rule("disk.failing").unwrap().advice.iter().any(|id| id == "disk.replace-failing"));
}

/// No rule on a cgroup's limit looks at the device or the processors beside it, so that no text claims that these are
/// idle.
#[test]
fn texts_on_limits_claim_nothing_of_what_lies_beside_them() {
    let pack = Pack::load("default.toml", include_str!("../../../../rules/default.toml")).unwrap();
    let limits = pack.rules.iter().filter(|rule| rule.id.starts_with("throttle.") && rule.object == "cgroup");
    let of_rules = limits.map(|rule| format!("{} {}", rule.title, rule.explain));
    let of_advice = pack.advice.iter().filter(|advice| advice.id.starts_with("throttle.raise-"));
    let texts: Vec<String> = of_rules.chain(of_advice.map(|advice| advice.text.clone())).collect();
    assert!(texts.len() > 4, "{texts:?}");
    for claim in ["not the disk", "could serve more.", "The device has", "The host has"] {
        let wrong: Vec<&String> =
            texts.iter().filter(|text| text.contains(claim) && !text.contains("whether")).collect();
        assert!(wrong.is_empty(), "{claim}: {wrong:?}");
    }
}

/// A title says that a disk could do more only where a probe measured it, or the disk itself reports it.
#[test]
fn titles_claim_spare_capacity_only_where_it_is_known() {
    let pack = Pack::load("default.toml", include_str!("../../../../rules/default.toml")).unwrap();
    let mut claiming = 0;
    for rule in &pack.rules {
        if !["could serve more", "capacity to spare"].iter().any(|claim| rule.title.contains(claim)) {
            continue;
        }
        let known = |id: &str| id.contains(".ceiling.") || id.ends_with(".utilisation");
        assert!(rule.conditions().any(|condition| known(&condition.quantity.counter.id)), "{}", rule.id);
        claiming += 1;
    }
    assert!(claiming > 0);
}

/// Only a trace shows whether the arm moves: a copy in sequence waits for the transfer of its large requests.
#[test]
fn only_rules_on_a_trace_blame_the_arm() {
    let pack = Pack::load("default.toml", include_str!("../../../../rules/default.toml")).unwrap();
    for rule in &pack.rules {
        let is_traced = rule.conditions().any(|condition| condition.quantity.counter.id.ends_with(".sequential_share"));
        assert!(is_traced || !rule.title.contains("the disk arm"), "{}: {}", rule.id, rule.title);
        let claims = ["pays seek", "every request. More disks"];
        assert!(is_traced || !claims.iter().any(|claim| rule.explain.contains(claim)), "{}: {}", rule.id, rule.explain);
    }
}
