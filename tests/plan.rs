//! `plan`: JSON fields, exit codes, screen, pages, and refusals.

use std::fs;

use crate::common::{diskwright, folder};

use serde_json::Value;

const DOC_002: [&str; 12] = [
    "plan",
    "--reads",
    "126",
    "--writes",
    "73",
    "--size",
    "8K",
    "--capacity",
    "36GB",
    "--queue",
    "16",
    "--levels=raid5",
];

fn run_json(arguments: &[&str]) -> Value {
    let output = diskwright(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn run_text(arguments: &[&str]) -> String {
    let output = diskwright(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Standard error of a command that must exit with 2 and print nothing else.
fn refusal_text(arguments: &[&str]) -> String {
    let output = diskwright(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn json_has_the_documented_fields() {
    let options =
        ["plan", "--reads", "300", "--writes", "100", "--size", "8K", "--capacity", "2TB", "--response", "20ms"];
    let answer = run_json(&options);
    assert_eq!(answer["schema"], "diskwright.plan/1");
    assert_eq!(answer["feasible"], true);
    assert_eq!(answer["limit"], Value::Null);
    let demand = &answer["demand"];
    for (field, value) in [("reads_per_s", 300.0), ("writes_per_s", 100.0), ("size_bytes", 8192.0)] {
        assert_eq!(demand[field], value, "{field}");
    }
    for field in ["percentile", "confidence"] {
        assert_eq!(demand[field], Value::Null, "{field}: nobody measured it");
    }
    assert_eq!(demand["estimated"], Value::Array(Vec::new()));
    let designs = answer["designs"].as_array().expect("designs");
    assert!(!designs.is_empty());
    let fields = [
        "rank",
        "level",
        "part",
        "count",
        "usable_bytes",
        "response_s",
        "utilization",
        "limit",
        "rebuild_s",
        "loss_5_years",
        "price",
        "currency",
        "price_date",
        "simulated",
        "why",
    ];
    for (index, design) in designs.iter().enumerate() {
        assert!(fields.iter().all(|field| design.get(*field).is_some()), "{design}");
        assert_eq!((design["rank"].as_u64(), design["simulated"].as_bool()), (Some(index as u64 + 1), Some(true)));
        for statistic in ["mean", "p95", "p99"] {
            assert!(design["response_s"][statistic].as_f64().is_some_and(|s| s > 0.0), "{design}");
        }
    }
    let more = ["controller", "horizon", "arithmetic", "bought", "known_price", "kept", "watts", "watts_date"];
    assert!(designs.iter().all(|design| more.iter().all(|field| design.get(*field).is_some())), "{designs:?}");
    let rejected = answer["rejected"].as_array().expect("rejected");
    assert!(rejected.iter().all(|r| r["design"].is_string() && r["because"].is_string()));
}

#[test]
fn plans_the_example_of_document_002() {
    let screen = run_text(&[&DOC_002[..], &["--drives", "compaq-4gb,compaq-9gb", "--response", "80ms"]].concat());
    for words in [
        "raid5 of 8 x compaq-9gb",
        "8 are needed, 10 recommended",
        "raid5 of 10 x compaq-4gb",
        "raid5 of 5 x compaq-9gb: its capacity suffices, but 3.2 requests are in flight per disk",
        "costs unknown",
        "saturates first: members",
    ] {
        assert!(screen.contains(words), "no `{words}` in:\n{screen}");
    }
    // rates measured at the members count as rates of the array: each write was two of the members'
    let answer =
        run_json(&["plan", "--members-of", "raid10:4", "--reads", "100", "--writes", "80", "--only", "cloud:aws"]);
    assert_eq!(
        (answer["demand"]["reads_per_s"].as_f64(), answer["demand"]["writes_per_s"].as_f64()),
        (Some(100.0), Some(40.0))
    );
}

#[test]
fn reports_controllers_kept_drives_and_the_horizon() {
    let load =
        ["plan", "--reads", "126", "--writes", "73", "--capacity", "12GB", "--growth", "10MB", "--horizon", "365d"];
    let options = ["--keep-existing", "3:compaq-4gb", "--levels", "raid5", "--controllers", "ultra-wide-scsi"];
    let screen = run_text(&[&load[..], &options].concat());
    for words in [
        "x compaq-4gb on ultra-wide-scsi",
        "3 existing drives are kept; bought: ",
        "price unknown: compaq-4gb, ultra-wide-scsi",
        "1 channel, ",
        "channels of ultra-wide-scsi",
        "in 365 days: 15.7 GB needed",
    ] {
        assert!(screen.contains(words), "no `{words}` in:\n{screen}");
    }
}

#[test]
fn kept_drives_that_suffice_cost_nothing() {
    let enough = ["plan", "--reads", "20", "--capacity", "4GB", "--keep-existing", "4:compaq-4gb"];
    let screen = run_text(&[&enough[..], &["--list", "1"]].concat());
    assert!(screen.contains("nothing to buy") && screen.contains(" 0 USD") && !screen.contains("-0 USD"), "{screen}");
    // the second design costs nothing as well, so no percentage of 0 may be printed
    let screen = run_text(&enough);
    assert!(screen.contains("the same price as rank 1") && !screen.contains("NaN %"), "{screen}");
}

#[test]
fn names_the_limit_when_no_design_meets_the_demand() {
    let options = ["plan", "--reads", "3000", "--writes", "1000", "--size", "16K", "--capacity", "500GB"];
    let options = [&options[..], &["--response", "3ms", "--instance", "m6i.large"]].concat();
    let answer = run_json(&options);
    assert_eq!((&answer["feasible"], &answer["limit"]), (&Value::Bool(false), &"instance m6i.large IOPS".into()));
    assert_eq!(answer["designs"].as_array().map(Vec::len), Some(1));
    let screen = run_text(&options);
    assert!(
        screen.contains("No design within the limits meets the demand. Closest: instance m6i.large IOPS"),
        "{screen}"
    );
    // of several unmet demands the one that is missed most is named: load or budget, not the little capacity
    let load = ["plan", "--reads", "1000000", "--capacity", "1TB", "--only", "hdd", "--max-drives", "4"];
    assert_eq!(run_json(&load)["limit"], "members");
    let dear = ["plan", "--reads", "10", "--capacity", "1TB", "--budget", "1USD"];
    assert_eq!(run_json(&dear)["limit"], "budget");
}

#[test]
fn rejects_wrong_usage_and_writes_nothing() {
    let dir = folder("plan-wrong");
    let page = dir.join("plan.html");
    let mixed = dir.join("mixed.toml");
    let row = |id: &str, currency: &str| {
        format!(
            "[[drive]]\nid = \"{id}\"\nprice = {{ each = 300.0, currency = \"{currency}\", region = \"DE\", 
             date = \"2026-11-01\", source = \"an offer\" }}\n"
        )
    };
    fs::write(&mixed, row("st24000nm002h", "USD") + &row("st20000nm007d", "EUR")).expect("written");
    let euro = dir.join("euro.toml");
    fs::write(&euro, row("st24000nm002h", "EUR")).expect("written");
    let (page, mixed, euro) = (page.display().to_string(), mixed.display().to_string(), euro.display().to_string());
    let load = ["plan", "--reads", "100", "--capacity", "1TB", "--html", &page];
    let cases: [(&[&str], &str); 30] = [
        (&["--controllers", "sas3-hba"], "did you mean `sas3-hba-8`?"),
        (&["--controllers", "sas3-hba-8", "--only", "cloud"], "--controllers is for drives"),
        (&["--cache", "1GB"], "--controllers"),
        (&["--keep-existing", "compaq-4gb"], "3:compaq-4gb"),
        (&["--keep-existing", "0:compaq-4gb"], "3:compaq-4gb"),
        (&["--keep-existing", "3:compaq-44gb"], "did you mean `compaq-4gb`?"),
        (&["--keep-existing", "30:compaq-4gb"], "--max-drives is 24"),
        (&["--drives", "st24000nm002g"], "did you mean `st24000nm002h`?"),
        (&["--drives", "gp33"], "did you mean `gp3`?"),
        (&["--instance", "m6i.larg"], "did you mean `m6i.large`?"),
        (&["--instance", "m6i.large", "--only", "hdd"], "--instance is for cloud volumes"),
        (&["--only", "floppy"], "expected hdd, ssd, cloud"),
        (&["--levels", "raid99"], "unknown level `raid99`; expected one of linear, raid0"),
        (&["--max-drives", "2", "--levels", "raid6"], "at least 4 are needed"),
        (&["--budget", "5000EUR", "--currency", "USD"], "cannot be compared"),
        (&["--budget", "much"], "write an amount"),
        (&["--prices", &mixed], "prices in EUR and USD"),
        (&["--prices", &euro, "--budget", "5000USD"], "cannot be compared"),
        (&["--prices", "/nonexistent.toml"], "/nonexistent.toml: "),
        (&["--response", "soon"], "--response: "),
        (&["--writes=-1"], "--writes -1: expected 0"),
        (&["--levels", "raid5", "--only", "cloud"], "--levels is for drives, but --only is for cloud"),
        (&["--spares", "1", "--instance", "m6i.large"], "--spares is for drives, but --instance is for cloud"),
        (&["--spares", "24"], "leaves nothing of the 24 drives"),
        (&["--drives", "compaq-4gb", "--only", "ssd"], "--drives names compaq-4gb, which --only excludes"),
        (&["--keep-existing", "3:compaq-4gb", "--only", "ssd"], "--keep-existing names compaq-4gb"),
        (&["--catalogue", "/nonexistent.toml"], "/nonexistent.toml: "),
        (&["--max-loss", "2"], "--max-loss 2: expected a chance above 0, up to 1"),
        (&["--max-loss", "NaN"], "`NaN` is not a share: write a percentage or a fraction"),
        (&["--surplus", "2000%"], "--surplus 2000%: expected at most 1000%"),
    ];
    for (more, says) in cases {
        let message = refusal_text(&[&load[..], more].concat());
        assert!(message.contains(says), "{more:?}: {message}");
    }
    assert_eq!(run_json(&["plan", "--reads", "100", "--drives", "gp3"])["designs"][0]["part"], "aws-gp3");
    assert!(refusal_text(&["plan", "--capacity", "1TB"]).contains("plan needs a demand"));
    assert!(refusal_text(&["plan", "--reads", "0"]).contains("no demand"));
    assert!(!fs::exists(&page).expect("readable"), "a page was written");
}

#[test]
fn rejects_options_without_effect_and_negative_numbers() {
    let load = ["plan", "--reads", "100", "--capacity", "1TB"];
    let cases: [(&[&str], &str); 10] = [
        (&["--comfort", "2"], "--comfort needs a log"),
        (&["--stripe-unit", "64K", "--only", "cloud"], "--stripe-unit is for drives, but --only is for cloud volumes"),
        (&["--levels", "raid5", "--drives", "gp3"], "--levels is for drives, but --drives names only cloud volumes"),
        (&["--controllers", "sas3-hba-8", "--drives", "gp3"], "--controllers is for drives, but --drives names only"),
        (&["--spares", "1", "--levels", "raid0"], "--spares is for levels with redundancy"),
        (&["--percentile", "50"], "--percentile needs a log"),
        (&["--writes", "-1"], "--writes -1: expected 0"),
        (&["--budget", "-1"], "--budget `-1`"),
        (&["--years", "-1"], "--years -1: expected more than 0"),
        (&["--max-loss", "-1"], "`-1` is not a share"),
    ];
    for (more, says) in cases {
        let message = refusal_text(&[&load[..], more].concat());
        assert!(message.contains(says), "{more:?}: {message}");
    }
}

#[test]
fn screen_agrees_with_the_json_fields() {
    // without known prices the first design is not called the cheapest
    let screen = run_text(&["plan", "--reads", "10", "--capacity", "4GB", "--drives", "compaq-4gb", "--list", "1"]);
    assert!(screen.contains("\nFirst design that meets the demand") && !screen.contains("Cheapest"), "{screen}");
    // petabytes, and reads and writes of two sizes
    let large = ["plan", "--reads", "50", "--writes", "10", "--size", "8K", "--write-size", "64K", "--capacity", "2PB"];
    let large = [&large[..], &["--only", "hdd", "--max-drives", "200", "--list", "1"]].concat();
    assert_eq!(run_json(&large)["demand"]["capacity_bytes"], 2e15);
    let screen = run_text(&large);
    assert!(screen.starts_with("50 reads/s and 10 writes/s of 8 KiB and 64 KiB, 2 PB"), "{screen}");
    assert!(screen.contains("--max-loss excludes such designs"), "{screen}");
    // designs that fail and cost more are not called cheaper
    let first = ["plan", "--reads", "126", "--writes", "73", "--capacity", "36GB", "--response", "20ms"];
    let answer = run_json(&first);
    let rejected = answer["rejected"].as_array().expect("rejected");
    let others = rejected.iter().filter(|r| r["cheaper"] == false).count();
    assert!(rejected.iter().all(|r| r["cost"].is_number() && r["price_period"].is_string()), "{answer}");
    let screen = run_text(&first);
    assert_eq!(screen.contains("\nOther designs that fail\n"), others > 0, "{screen}");
    // with a growth rate, how long the capacity lasts
    let grows = ["plan", "--reads", "10", "--capacity", "1TB", "--growth", "1GB", "--drives", "samsung-980pro-1tb"];
    let screen = run_text(&grows);
    assert!(screen.contains("full at once") && screen.contains("(--horizon)"), "{screen}");
    // a recommendation above --max-drives says so
    let load = ["plan", "--reads", "10", "--capacity", "20TB", "--drives", "samsung-980pro-1tb", "--levels", "raid5"];
    let screen = run_text(&load);
    assert!(screen.contains("27 recommended") && screen.contains("more than --max-drives 24 allows"), "{screen}");
}

#[test]
fn first_lines_name_the_demand_and_the_cheapest_design() {
    let screen = run_text(&["plan", "--reads", "126", "--writes", "73", "--capacity", "36GB", "--response", "40ms"]);
    let mut lines = screen.lines();
    assert!(lines.next().is_some_and(|line| line.starts_with("126 reads/s and 73 writes/s")), "{screen}");
    assert!(lines.next().is_some_and(|line| line.starts_with("Cheapest design that meets the demand: ")), "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 120), "{screen}");
}

#[test]
fn tries_a_drive_with_an_own_price() {
    let prices = folder("plan-offered").join("own.toml");
    let row = "[[drive]]\nid = \"compaq-4gb\"\nprice = { each = 1.0, currency = \"EUR\", region = \"DE\", 
               date = \"2026-11-01\", source = \"an offer\" }\n";
    fs::write(&prices, row).expect("written");
    let answer = run_json(&["plan", "--reads", "10", "--prices", &prices.display().to_string(), "--list", "1"]);
    assert_eq!(answer["designs"][0]["part"], "compaq-4gb");
}

#[test]
fn uses_own_prices_and_writes_page_and_chart() {
    let dir = folder("plan-own");
    let (prices, page, chart) = (dir.join("own.toml"), dir.join("plan.html"), dir.join("plan.svg"));
    let row = "[[drive]]\nid = \"wuh721818ale6l4\"\nwatts = 6.5\nprice = { each = 111.0, currency = \"EUR\", 
               region = \"DE\", date = \"2025-11-01\", source = \"<b>an offer\" }\n";
    fs::write(&prices, row).expect("written");
    let (prices, page_name, chart_name) =
        (prices.display().to_string(), page.display().to_string(), chart.display().to_string());
    let options =
        ["plan", "--reads", "50", "--writes", "10", "--capacity", "30TB", "--only", "hdd", "--prices", &prices];
    let answer = run_json(&[&options[..], &["--html", &page_name, "--svg", &chart_name]].concat());
    let first = &answer["designs"][0];
    assert_eq!((&first["part"], &first["currency"]), (&"wuh721818ale6l4".into(), &"EUR".into()));
    let count = first["count"].as_f64().expect("a number") + first["spares"].as_f64().expect("a number");
    assert_eq!((first["price"].as_f64(), first["watts"].as_f64()), (Some(111.0 * count), Some(6.5 * count)));
    // prices in another currency count as unknown
    let others = answer["designs"].as_array().expect("designs").iter().filter(|d| d["part"] != first["part"]);
    assert!(others.into_iter().all(|design| design["price"].is_null()));
    let notes = answer["notes"].to_string();
    assert!(notes.contains("older than a year (2025-11-01)"), "{notes}");
    let html = fs::read_to_string(page).expect("a page");
    assert!(html.contains("wuh721818ale6l4") && html.contains("rank") | html.contains("saturates first"));
    assert!(!html.contains("<b>an offer"));
    assert!(fs::read_to_string(chart).expect("a chart").contains("<svg"));
}

#[test]
fn draws_points_for_one_design_and_for_unpriced_designs() {
    let chart = folder("plan-svg").join("plan.svg");
    let name = chart.display().to_string();
    let dots = |options: &[&str]| {
        run_json(&[&["plan", "--reads", "10", "--svg", &name], options].concat());
        let text = fs::read_to_string(&chart).expect("a chart");
        (text.matches("<circle").count(), text.contains("Shortest response time for each cost"))
    };
    let (count, has_costs) =
        dots(&["--drives", "samsung-980pro-1tb", "--levels", "raid1", "--spares", "0", "--list", "1"]);
    assert!(count >= 4 && has_costs, "{count}");
    // with an unknown price, only mean and two percentiles of each listed design are drawn
    let (count, has_costs) = dots(&["--drives", "compaq-4gb", "--list", "1"]);
    assert!(count == 3 && !has_costs, "{count}");
}

#[test]
fn tries_the_best_designs_from_their_descriptions() {
    let dir = folder("plan-tried");
    let demand = ["plan", "--reads", "60", "--writes", "30", "--capacity", "1TB", "--only", "hdd,cloud:aws"];
    let options = ["--list", "2", "--try", "2", "--seed", "7"];
    let answer = run_json(&[&demand[..], &options].concat());
    let tried = answer["tried"].as_array().expect("tried");
    assert_eq!(tried.len(), 2);
    for (design, tried) in answer["designs"].as_array().expect("designs").iter().zip(tried) {
        assert_eq!((&tried["rank"], &tried["seed"]), (&design["rank"], &7.into()));
        assert_eq!(tried["planned"]["response_s"]["mean"], design["response_s"]["mean"]);
        assert_eq!(tried["planned"]["requests_per_s"], 90.0);
        let number =
            |path: &str| tried.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {tried}"));
        assert!((number("/measured/requests_per_s") / 90.0 - 1.0).abs() < 0.1, "{tried}");
        assert!(number("/measured/response_s/p95") > number("/measured/response_s/mean"), "{tried}");
        assert!(number("/measured/busiest/utilization") > 0.0 && tried["measured"]["busiest"]["part"].is_string());
        // what differs by more than a tenth is marked, and nothing else
        for field in ["response_s/mean", "response_s/p95"] {
            let difference = number(&format!("/measured/{field}")) / number(&format!("/planned/{field}")) - 1.0;
            let is_marked = tried["differences"].to_string().contains(&field.replace('/', "."));
            assert_eq!(is_marked, difference.abs() > 0.1, "{field}: {tried}");
        }
        assert!(tried["description"].is_null(), "the folder was removed");
    }
    assert_eq!(answer["next_steps"], Value::Array(Vec::new()));
    // into a folder: what was tried can be simulated again, with the same result, and served
    let written = dir.join("designs").display().to_string();
    let kept = run_json(&[&demand[..], &options, &["--write", &written]].concat());
    let file = kept["tried"][1]["description"].as_str().expect("a file");
    assert_eq!(kept["designs"][1]["description"], file);
    let again = run_json(&["simulate", file, "--seed", "7"]);
    let mean = |value: &Value, path: &str| value.pointer(path).and_then(Value::as_f64).expect("a time");
    let (tried, again) =
        (mean(&kept, "/tried/1/measured/response_s/mean"), mean(&again, "/workloads/0/response_s/mean"));
    assert!((tried / again - 1.0).abs() < 1e-9, "{tried} {again}");
    let next = kept["next_steps"][0]["command"].as_str().expect("a command");
    assert!(next.starts_with("diskwright disk ") && next.contains("/1-") && next.contains(" --socket "), "{next}");
    let screen = run_text(&[&demand[..], &options[..4]].concat());
    assert!(screen.contains("Tried: each design simulated from its description, seed 1"), "{screen}");
    assert!(screen.contains("1  planned ") && screen.contains("   measured "), "{screen}");
    assert!(refusal_text(&["plan", "--reads", "1", "--seed", "7"]).contains("--try"));
}

#[test]
fn an_impossible_demand_says_which_requirement_to_relax() {
    let demand = ["plan", "--reads", "100", "--size", "8K", "--capacity", "1TB", "--drives", "st24000nm002h"];
    let limits = ["--levels", "raid10", "--stripe-unit", "64K", "--response-of", "p95", "--response"];
    let options = [&demand[..], &limits].concat();
    let answer = run_json(&[&options[..], &["2ms"]].concat());
    let first = &answer["relax"][0];
    assert_eq!(
        (&answer["feasible"], &first["requirement"], &first["now"]),
        (&false.into(), &"response".into(), &0.002.into())
    );
    // the option that it names is enough
    let option = first["option"].as_str().and_then(|option| option.strip_prefix("--response ")).expect("an option");
    let met = run_json(&[&options[..], &[option]].concat());
    assert_eq!((&met["feasible"], &met["relax"]), (&true.into(), &Value::Array(Vec::new())));
    let screen = run_text(&[&options[..], &["2ms"]].concat());
    assert!(screen.contains("Relax one requirement") && screen.contains("p95 response of 2 ms: with "), "{screen}");
}

#[test]
fn a_plan_without_a_limit_of_the_response_says_so() {
    let plan = ["plan", "--reads", "126", "--writes", "73", "--capacity", "36GB"];
    let screen = |more: &[&str]| {
        let answer = diskwright(&[&plan[..], more].concat());
        String::from_utf8_lossy(&answer.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(screen(&[]).contains("set (--response)"), "{}", screen(&[]));
    assert!(!screen(&["--response", "20ms"]).contains("set (--response)"));
}
