//! Published bills, and errors that price lists report.

use diskwright_planner::prices::bills::{VolumeChoice, burst_transactions, burst_units};
use diskwright_planner::prices::{
    BUILT_IN_FILES, PriceList, VolumeOffer, built_in_prices, day_number, is_outdated, read_price_list,
};

fn offer(id: &str) -> VolumeOffer {
    built_in_prices().volumes.into_iter().find(|row| row.id == id).expect(id)
}

/// Capacity, operations, rate and total, in cents.
fn bill(id: &str, gib: f64, iops: f64, rate: f64) -> [i64; 4] {
    let bill = offer(id).monthly_bill(&VolumeChoice { gib, iops, rate });
    let cents = |value: Option<f64>| (value.expect("a known price") * 100.0).round() as i64;
    [cents(bill.capacity), cents(bill.iops), cents(bill.rate), cents(bill.total())]
}

#[test]
fn computes_published_bills() {
    // infracost: gp3 of 40 GB with 1,000 operations and 5 MiB/s beyond what is included
    assert_eq!(bill("aws-gp3", 40.0, 4000.0, 130.0), [320, 500, 20, 840]);
    assert_eq!(bill("aws-gp3", 40.0, 3000.0, 125.0), [320, 0, 0, 320]);
    // io2 of 30 GB with 300 operations: 3.75 + 19.50
    assert_eq!(bill("aws-io2", 30.0, 300.0, 0.0), [375, 1950, 0, 2325]);
    // its tiers: 32,000 x 0.065 + 32,000 x 0.0455 + 36,000 x 0.03185
    assert_eq!(bill("aws-io2", 1000.0, 100_000.0, 0.0)[1], 208_000 + 145_600 + 114_660);
    // Tokyo: 0.142 a GB, 0.074, 0.0518, 0.03626
    assert_eq!(bill("aws-io2-tokyo", 100.0, 70_000.0, 0.0)[..2], [1420, 236_800 + 165_760 + 21_756]);
    // Azure: 512 GiB, 40,000, 200 MB/s: 41.11 + 189.07 + 3.01 = 233.19; 1 GiB as it comes 0.08
    assert_eq!(bill("azure-premium-v2", 512.0, 40_000.0, 200.0), [4111, 18_907, 301, 23_319]);
    assert_eq!(bill("azure-premium-v2", 1.0, 3000.0, 125.0), [8, 0, 0, 8]);
    // Ultra: 4 GiB, 100, 1: 0.48 + 4.96 + 0.35 = 5.79
    assert_eq!(bill("azure-ultra", 4.0, 100.0, 1.0), [48, 496, 35, 579]);
    assert_eq!(bill("azure-p10", 128.0, 500.0, 100.0)[3], 1971);
}

#[test]
fn unknown_prices_are_not_zero() {
    let p30 = offer("azure-p30");
    assert_eq!(p30.monthly_bill(&VolumeChoice { gib: 1024.0, iops: 5000.0, rate: 200.0 }).total(), None);
    // what is sold and has no price
    let mut gp3 = offer("aws-gp3");
    gp3.price.iops_month = None;
    assert_eq!(gp3.monthly_bill(&VolumeChoice { gib: 40.0, iops: 4000.0, rate: 125.0 }).total(), None);
    assert!(gp3.monthly_bill(&VolumeChoice { gib: 40.0, iops: 3000.0, rate: 125.0 }).total().is_some());
}

#[test]
fn bursts_on_demand_and_by_credits() {
    // P30 with 6,000 above for 10 s, then 7,000, each less its 5,000: 10,000 + 120,000 are 13 units
    let all = burst_transactions(6000.0 - 5000.0, 0.0, 10.0) + burst_transactions(7000.0 - 5000.0, 0.0, 60.0);
    assert_eq!((all, burst_units(all)), (130_000.0, 13.0));
    assert_eq!(burst_transactions(100.0, 100.0, 1.0), 400.0);
    // gp2: 5.4e6 / (3000 - 3 GiB); minutes
    let gp2 = offer("aws-gp2");
    let rule = gp2.burst.expect("gp2 bursts");
    for (gib, minutes) in [(100.0, 33.3), (250.0, 40.0), (500.0, 60.0), (750.0, 120.0)] {
        let found = rule.burst_seconds(gp2.iops.included_value(gib)) / 60.0;
        assert!((found - minutes).abs() < 0.05, "{gib} GiB: {found}");
    }
    assert_eq!(rule.burst_seconds(gp2.iops.included_value(1000.0)), f64::INFINITY);
    // P10 and P20: 30 minutes at the full burst
    for id in ["azure-p10", "azure-p20"] {
        let row = offer(id);
        assert_eq!(row.burst.expect(id).burst_seconds(row.iops.base), 1800.0);
    }
}

#[test]
fn volume_limits_follow_the_documentation() {
    let gp3 = offer("aws-gp3");
    // 80,000 operations need 160 GiB, 2,000 MiB/s need 8,000 operations
    assert_eq!(
        gp3.choose_volume(10.0, 80_000.0, 125.0),
        Some(VolumeChoice { gib: 160.0, iops: 80_000.0, rate: 125.0 })
    );
    assert_eq!(gp3.choose_volume(100.0, 0.0, 2000.0), Some(VolumeChoice { gib: 100.0, iops: 8000.0, rate: 2000.0 }));
    assert_eq!((gp3.choose_volume(10.0, 80_001.0, 0.0), gp3.choose_volume(70_000.0, 0.0, 0.0)), (None, None));
    let v2 = offer("azure-premium-v2");
    assert_eq!((v2.iops.max_value(6.0), v2.iops.max_value(160.0), v2.iops.max_value(1000.0)), (3000.0, 8e4, 8e4));
    let gp2 = offer("aws-gp2");
    assert_eq!(
        [10.0, 100.0, 5334.0, 16_384.0].map(|gib| gp2.iops.included_value(gib)),
        [100.0, 300.0, 16_000.0, 16_000.0]
    );
    assert_eq!([170.0, 171.0].map(|gib| gp2.rate.included_value(gib)), [128.0, 250.0]);
    assert_eq!(gp2.choose_volume(50.0, 1500.0, 100.0).map(|choice| choice.gib), Some(500.0));
    // 128 MiB/s up to 170 GiB, more above
    assert_eq!(gp2.choose_volume(50.0, 100.0, 200.0).map(|choice| choice.gib), Some(171.0));
    assert_eq!(gp2.choose_volume(50.0, 100.0, 300.0), None);
    // the smallest that is as fast as any
    let fastest = |id: &str| offer(id).fastest_gib(1.0);
    assert_eq!(["aws-gp2", "aws-st1", "aws-gp3", "azure-p20"].map(fastest), [5334.0, 12_800.0, 160.0, 1.0]);
    // st1: 40 MiB/s for each TiB, 500 at most
    let st1 = offer("aws-st1");
    assert_eq!([1024.0, 12_800.0, 16_384.0].map(|gib| st1.rate.included_value(gib)), [40.0, 500.0, 500.0]);
}

#[test]
fn subsystems_of_infostor_1999() {
    let all = built_in_prices().subsystems;
    let of = |id: &str| all.iter().find(|row| row.id == id).expect(id);
    let prices = ["winchester-flashdisk", "consensys-smartcan", "gateway-alr-9200"].map(|id| of(id).price.each);
    assert_eq!(prices, [Some(36_157.0), Some(8665.0), Some(13_844.0)]);
    let flashdisk = of("winchester-flashdisk");
    let level = diskwright_simulator::ArrayLevel::parse(flashdisk.level.as_deref().expect("a level")).expect("known");
    // W26: twelve drives of 9 GB in RAID 10 hold 54 GB; a GB of them costs 670, of ten 18.2 GB drives 48
    let usable = diskwright_planner::arithmetic::usable_members(level, flashdisk.count) * flashdisk.drive_gb;
    assert_eq!((usable, (36_157.0 / usable).round()), (54.0, 670.0));
    assert_eq!((8665.0_f64 / (10.0 * 18.2)).round(), 48.0);
    // of the three, all are older than a year
    assert!(all.iter().all(|row| is_outdated(&row.price.date, "2026-11-23")));
}

#[test]
fn rows_have_dates_and_old_ones_are_recognized() {
    assert_eq!((day_number("1970-01-01"), day_number("2000-03-01")), (Some(0), Some(11_017)));
    assert_eq!(["2026-13-01", "2026-1-1", "today", ""].map(day_number), [None; 4]);
    assert!(!is_outdated("2026-10-07", "2026-11-23") && is_outdated("2024-06-30", "2026-11-23"));
    assert!(!is_outdated("2025-11-23", "2026-11-23") && is_outdated("2025-11-22", "2026-11-23"));
    for volume in built_in_prices().volumes {
        assert!(!volume.source.is_empty() && !volume.region.is_empty() && day_number(&volume.date).is_some());
    }
}

#[test]
fn own_rows_take_precedence() {
    let text = r#"
        [[drive]]
        id = "st24000nm002h"
        price = { each = 480.0, currency = "USD", region = "DE", date = "2026-11-01", source = "an offer" }
    "#;
    let mut list = built_in_prices();
    let before = list.drive_price("st24000nm002h", "USD").and_then(|price| price.price_for(24e12));
    list.extend(read_price_list("own.toml", text).expect("a good file"));
    let after = list.drive_price("st24000nm002h", "USD").and_then(|price| price.price_for(24e12));
    assert_eq!((before.map(f64::round), after), (Some(547.0), Some(480.0)));
    assert!(list.drive_price("st24000nm002h", "EUR").is_none(), "no price is converted");
    // who gives a price does not take the power away, and a name may be as it is printed on the drive
    let watts = |list: &PriceList| list.drive_power("st18000nm000j").map(|power| power.watts());
    let mut list = built_in_prices();
    let known = watts(&list);
    let upper = text.replace("st24000nm002h", "ST18000NM000J");
    list.extend(read_price_list("own.toml", &upper).expect("a good file"));
    assert!(known.is_some() && watts(&list) == known, "{known:?}");
    let price = list.drive_price("st18000nm000j", "USD").and_then(|price| price.price_for(18e12));
    assert_eq!(price, Some(480.0));
}

#[test]
fn reports_broken_lists_with_their_line() {
    let price = |text: &str| format!("\n[[drive]]\nid = \"x\"\nprice = {{ {text} }}\n");
    let rest = "region = \"US\", source = \"s\"";
    let group = |keys: &str| format!("\n[[group]]\nid = \"g\"\nname = \"g\"\ndrives = []\n{keys}\n");
    let instance = |burst: &str| {
        format!(
            "\n[[instance]]\nid = \"i\"\nprovider = \"aws\"\nbaseline = {{ mb_s = 100, iops = 4000 }}\nmost = {{ \
             {burst} }}\ndate = \"2026-01-01\"\nsource = \"s\"\n"
        )
    };
    let volume = |keys: &str| {
        format!(
            "\n[[volume]]\nid = \"v\"\nname = \"v\"\nprovider = \"own\"\nregion = \"r\"\nmedia = \"ssd\"\n\
             like = \"aws-gp3\"\ngib = [1, 100]\nunit = \"MiB\"\nrate = {{ with = 10, most = 10 }}\n{keys}\n\
             price = {{ currency = \"USD\" }}\ndate = \"2026-01-01\"\nsource = \"s\"\n"
        )
    };
    let iops = "iops = { with = 100, most = 100 }";
    let cases = [
        ("[[volume]]\nid = 1".to_owned(), "own.toml:2: "),
        (price(&format!("each = 0.0, currency = \"USD\", date = \"2026-01-01\", {rest}")), "own.toml:3: x: price: exp"),
        (price(&format!("currency = \"USD\", date = \"2026-01-01\", {rest}")), "own.toml:3: x: price: give"),
        (price(&format!("each = 1.0, currency = \"usd\", date = \"2026-01-01\", {rest}")), "own.toml:3: x: currency"),
        (price(&format!("each = 1.0, currency = \"USD\", date = \"May\", {rest}")), "own.toml:3: x: date: `May`"),
        ("[[drives]]".to_owned(), "own.toml:1: "),
        // 1.36 % is 0.0136; anything else makes the chance of losing data a nonsense that looks like 0
        (group("field = { afr = 1.36, source = \"s\" }"), "own.toml:3: g: field: afr 1.36"),
        (group("spec = { mtbf_hours = -1.0, errors_per_bit = 1e-15, source = \"s\" }"), "own.toml:3: g: spec: "),
        // credits below 0 cannot be replayed
        (instance("mb_s = 200, iops = 3000"), "own.toml:3: i: most: "),
        (volume(&format!("{iops}\nburst = {{ iops = 300, credits = -5, below_gib = 50 }}")), "own.toml:3: v: burst: "),
        (volume(&format!("{iops}\nbyte_burst = {{ most = 20, credits = -1, below_gib = 9 }}")), "own.toml:3: v: byte"),
        (volume("iops = { with = -1, most = 100 }"), "own.toml:3: v: with, free"),
    ];
    for good in [instance("mb_s = 200, iops = 4000"), volume(iops)] {
        assert!(read_price_list("own.toml", &good).is_ok(), "{good}");
    }
    for (text, says) in cases {
        let error = read_price_list("own.toml", &text).expect_err(says).to_string();
        assert!(error.starts_with(says), "{error} is not {says}");
    }
}

#[test]
fn instances_have_the_limits_that_are_published() {
    // DescribeInstanceTypes: MB/s and operations for ever, and at most for half an hour a day
    let rows = [
        ("m6i.large", 81.25, 3600.0, Some((1250.0, 40_000.0))),
        ("m6i.xlarge", 156.25, 6000.0, Some((1250.0, 40_000.0))),
        ("m5.large", 81.25, 3600.0, Some((593.75, 18_750.0))),
        ("c5a.large", 25.0, 800.0, Some((396.25, 13_300.0))),
        ("t3.micro", 10.86, 500.0, Some((260.57, 11_800.0))),
        ("t3.medium", 43.43, 2000.0, Some((260.57, 11_800.0))),
        // two sources of different days differ: the lower counts
        ("t4g.micro", 8.0, 500.0, Some((260.62, 11_800.0))),
        ("r5b.large", 156.25, 5417.0, Some((1250.0, 43_333.0))),
        ("r5b.24xlarge", 7500.0, 260_000.0, None),
    ];
    let (_, text) = BUILT_IN_FILES.into_iter().find(|(file, _)| *file == "volumes.toml").expect("a file");
    let single = read_price_list("volumes.toml", text).expect("is right").instances;
    assert_eq!(single.len(), rows.len(), "a row without its published limits here");
    let all = built_in_prices().instances;
    for (id, rate, iops, burst) in rows {
        let caps = all.iter().find(|caps| caps.id == id).expect(id);
        assert_eq!((caps.baseline.mb_s, caps.baseline.iops), (rate, iops), "{id}");
        assert_eq!(caps.burst.as_ref().map(|burst| (burst.mb_s, burst.iops)), burst, "{id}");
    }
}

#[test]
fn tables_of_instances_have_the_published_rows() {
    let prices = built_in_prices();
    let caps = |id: &str| {
        let found = prices.find_instance(id).expect(id);
        let most = found.burst.unwrap_or(found.baseline);
        [found.baseline.mb_s, found.baseline.iops, most.mb_s, most.iops]
    };
    // ebs-optimized.md of June 2023; dsv5-series.md of February 2026
    assert_eq!(caps("m7g.large"), [78.75, 3600.0, 1250.0, 40_000.0]);
    assert_eq!(caps("m7g.16xlarge"), [2500.0, 80_000.0, 2500.0, 80_000.0]);
    assert_eq!(caps("standard_d8s_v5"), [290.0, 12_800.0, 1200.0, 20_000.0]);
    assert!(prices.find_instance("n2-standard-8").expect("a row").unconfirmed.is_some());
    assert!(prices.instances.len() > 700 && prices.find_instance("z99.large").is_none());
    // half an hour at the highest rate: (1,250 - 81.25) MB/s x 1,800 s
    let [requests, bytes] = prices.find_instance("m6i.large").expect("a row").cloud_instance("x").caps().expect("caps");
    assert_eq!((requests.credits, bytes.credits), (36_400.0 * 1800.0, 1_168.75e6 * 1800.0));
}

#[test]
fn azure_names_a_disk_by_its_size_and_others_by_their_type() {
    let prices = built_in_prices();
    let found = |name: &str, gib: Option<u64>| prices.find_volume_type(name, gib.map(|g| g << 30)).map(|kind| kind.id);
    let tiers = [(4, "azure-p1"), (5, "azure-p2"), (128, "azure-p10"), (129, "azure-p15"), (1024, "azure-p30")];
    for (gib, id) in tiers {
        assert_eq!(found("Premium_LRS", Some(gib)).as_deref(), Some(id));
    }
    assert_eq!(found("Premium_LRS", None), None, "the size decides");
    assert_eq!(found("premium_lrs", Some(40_000)), None, "larger than any");
    assert_eq!(found("StandardSSD_LRS", Some(30)).as_deref(), Some("azure-e4"));
    assert_eq!(found("PERSISTENT", None).as_deref(), Some("gcp-pd-standard"));
    assert_eq!(found("io1", None).as_deref(), Some("aws-io1"));
    // each type has possible limits, at its least and its largest size
    for id in prices.volume_type_ids() {
        let kind = prices.find_volume_type(id, None).expect(id);
        for gib in kind.gib {
            assert!(kind.caps(gib, None, None).iter().all(|cap| cap.is_possible()), "{id} of {gib} GiB");
        }
    }
}

/// managed-disks-bursting-2.md: for up to 30 minutes at the highest rate. A P4 bursts to 3,500 IOPS and 170 MB/s.
#[test]
fn bursts_of_azure_last_half_an_hour() {
    for id in ["azure-p1", "azure-p4", "azure-p6", "azure-p10", "azure-p15", "azure-p20"] {
        let kind = built_in_prices().find_volume_type(id, None).expect(id);
        for cap in kind.caps(kind.gib[0], None, None) {
            assert_eq!(cap.credits / (cap.burst - cap.baseline), 1800.0, "{id}");
        }
    }
}
