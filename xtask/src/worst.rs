//! `cargo xtask worst`: what an event costs beside more and more of everything.
//!
//! Each case of the ledger's bench `worst` is run at several sizes under
//! valgrind, which counts instructions as it does for [`crate::gate`]. A case
//! whose instructions per unit grow more than a logarithm would is a structure
//! that a hostile client can make slow: it fails, unless the bench says why it
//! must be so.

use crate::command::{program, read};
use crate::gate::{build, counted};
use crate::tool;
use anyhow::{Context, bail};

/// How much more a unit may cost after two decades of size.
///
/// A tree of a million entries is twice as deep as one of a thousand, and the
/// rest of an event does not grow.
const MOST_PER_TWO_DECADES: f64 = 2.0;

/// A case, as the bench describes it.
#[derive(Debug, PartialEq)]
struct Case<'a> {
    name: &'a str,
    beside: &'a str,
    sizes: Vec<u64>,
    unit: &'a str,
    /// Why it grows with the size, if it may.
    linear: Option<&'a str>,
}

/// Measures every case, or those named.
pub(crate) fn run(names: &[&str]) -> anyhow::Result<()> {
    tool::VALGRIND.ensure()?;
    let binary = build("ttmem-ledger", "worst")?;
    let list = read(&mut program(&binary))?;
    let cases: Vec<Case<'_>> = list.lines().map(parse).collect::<anyhow::Result<_>>()?;
    if let Some(name) = names
        .iter()
        .find(|name| cases.iter().all(|case| case.name != **name))
    {
        bail!("no such case: {name}");
    }
    println!("| case | beside | instructions | per | |");
    println!("|---|---|---|---|---|");
    let mut faults = Vec::new();
    for case in &cases {
        if !names.is_empty() && !names.contains(&case.name) {
            continue;
        }
        let mut counts: Vec<(u64, u64)> = Vec::new();
        for size in &case.sizes {
            let words = [case.name, &size.to_string()];
            let (count, printed) = counted(&binary, &words, &[])?;
            let units: u64 = printed
                .trim()
                .parse()
                .with_context(|| format!("{} says nothing of its units", case.name))?;
            counts.push((*size, count / units.max(1)));
        }
        let growth = growth(&counts);
        let is_flat = growth <= MOST_PER_TWO_DECADES;
        let verdict = match case.linear {
            None if is_flat => "flat".to_owned(),
            None => format!("GROWS ×{growth:.1} over two decades"),
            Some(_reason) if is_flat => "flat at these sizes".to_owned(),
            Some(reason) => format!("linear: {reason}"),
        };
        println!("{}", row(case, &counts, &verdict));
        if case.linear.is_none() && !is_flat {
            faults.push(case.name);
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    bail!(
        "instructions grow with the size: {}. If that must be so, the case says why",
        faults.join(", ")
    );
}

fn parse(line: &str) -> anyhow::Result<Case<'_>> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [name, beside, sizes, unit, linear] = fields[..] else {
        bail!("the bench lists a case that is none: {line:?}");
    };
    let sizes: Result<Vec<u64>, _> = sizes.split(' ').map(str::parse).collect();
    Ok(Case {
        name,
        beside,
        sizes: sizes.with_context(|| format!("the sizes of {name}"))?,
        unit,
        linear: Some(linear).filter(|reason| !reason.is_empty()),
    })
}

/// How much more a unit costs after two decades, from wherever it grows most.
///
/// The least and the most are taken at any two sizes: a step between the first two
/// is as much growth as one between the last. Below three decades it is what was seen.
fn growth(counts: &[(u64, u64)]) -> f64 {
    let mut most: f64 = 1.0;
    for (at, (size, count)) in counts.iter().enumerate() {
        for (larger, later) in &counts[at + 1..] {
            let ratio = to_float(*later) / to_float((*count).max(1));
            let decades = (to_float(*larger) / to_float(*size)).log10();
            // What is seen over three decades is held against two.
            let over_two = ratio.powf((2.0 / decades).min(1.0));
            most = most.max(over_two);
        }
    }
    most
}

#[expect(
    clippy::cast_precision_loss,
    reason = "ratios of counts: the first digits are all that matters"
)]
fn to_float(count: u64) -> f64 {
    count as f64
}

fn row(case: &Case<'_>, counts: &[(u64, u64)], verdict: &str) -> String {
    let sizes: Vec<String> = counts.iter().map(|(size, _)| grouped(*size)).collect();
    let counts: Vec<String> = counts.iter().map(|(_, count)| grouped(*count)).collect();
    format!(
        "| `{}` | {} {} | {} | {} | {verdict} |",
        case.name,
        sizes.join(" · "),
        case.beside,
        counts.join(" · "),
        case.unit,
    )
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_read_as_the_bench_lists_it() {
        let case = parse("cb\tentries\t1 10 100\tevent\t").unwrap();
        assert_eq!((case.name, case.sizes.len(), case.linear), ("cb", 3, None));
        let case = parse("mark\tprocesses\t1\tmark\teach is walked").unwrap();
        assert_eq!(case.linear, Some("each is walked"));
        assert!(parse("cb").is_err());
        assert!(parse("cb\tentries\tmany\tevent\t").is_err());
    }

    #[test]
    fn flat_and_logarithmic_costs_pass_and_linear_ones_do_not() {
        let flat = [(1_000, 700), (10_000, 710), (100_000, 690)];
        let logarithmic = [(10, 900), (100, 1_000), (1_000, 1_150), (10_000, 1_300)];
        let linear = [(1_000, 800), (10_000, 900), (100_000, 1_900)];
        assert!(growth(&flat) <= MOST_PER_TWO_DECADES);
        assert!(growth(&logarithmic) <= MOST_PER_TWO_DECADES);
        assert!(growth(&linear) > MOST_PER_TWO_DECADES);
        // A step between two sizes counts although it is less than two decades.
        assert!(growth(&[(10, 100), (100, 250)]) > MOST_PER_TWO_DECADES);
        assert!(growth(&[]) <= MOST_PER_TWO_DECADES);
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(["7", "1,000", "65,536"], [7, 1000, 65_536].map(grouped)[..]);
        assert_eq!(grouped(1_000_000), "1,000,000");
    }
}
