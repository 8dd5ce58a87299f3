//! The readers on made-up sources, and the ceilings.

use super::*;

fn names(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| &*finding.name).collect()
}

#[test]
fn only_a_copy_in_a_second_file_counts() {
    let copies = &[
        ("fit", "rs", "x {banks}"),
        ("fit", "ts", "× ${banks}"),
        ("age", "rs", "min ago"),
    ];
    let rust = "let fit = \"x {banks}\";\nmod tests {\n    \"min ago\" x {banks}\n}\n";
    let mut sources = vec![
        Source::new("tui/src/a.rs", rust),
        Source::new("web/src/b.ts", "\nconst fit = `× ${banks}`"),
        Source::new("web/tests/b.test.ts", "expect(`× ${banks}`)"),
        Source::new("tests/bench/src/c.rs", rust),
    ];
    let found = copies::find(copies, 2, &sources);
    assert_eq!(names(&found), ["fit"]);
    assert_eq!(found[0].places, ["tui/src/a.rs:1", "web/src/b.ts:2"]);
    sources.remove(1);
    assert!(copies::find(copies, 2, &sources).is_empty());
    assert_eq!(names(&copies::find(copies, 1, &sources)), ["fit"]);
    sources.push(Source::new("report/src/d.rs", rust));
    assert_eq!(names(&copies::find(copies, 2, &sources)), ["fit"]);
}

#[test]
fn tests_with_foreign_paths_are_found() {
    let rust = "include_str!(\"py/rule.py\")\nmod tests {\n    include_str!(\"../../py/rule.py\")\n    // `py/rule.py`\n    frame(\"/py/rule.py\", \"model.py\", \"a.rs\")\n}\n";
    let sources = [
        Source::new("py/rule.py", ""),
        Source::new("tui/src/a.rs", rust),
        Source::new(
            "web/tests/a.test.ts",
            "read('src/a.rs');\nread(`../a.test.ts`)",
        ),
    ];
    let found = readers::foreign_reads(&sources);
    assert_eq!(names(&found), ["py/rule.py", "src/a.rs"]);
    assert_eq!(found[0].places, ["tui/src/a.rs:3"]);
    assert_eq!(found[1].places, ["web/tests/a.test.ts:1"]);
}

#[test]
fn public_methods_with_mut_self_are_mutators() {
    let ledger = "\
impl Ledger {
    pub fn join(&mut self) -> u32 {
    }

    pub const fn apply(
        &mut self,
        index: u32,
    ) -> bool {
    }

    pub fn view(&mut self) -> View {}

    pub fn events(&self) -> u64 {
        self.follow(&mut self.table);
    }

    fn follow(&mut self) {}

    pub(crate) fn book(&mut self) {}
}

impl Extend<Event> for Ledger {
    fn extend<I>(&mut self, events: I) {
    }
}

impl LedgerThread {
    pub fn stop(&mut self) {}
}
";
    let sources = [Source::new("ledger/src/ledger.rs", ledger)];
    let found = readers::ledger_mutators(&sources);
    assert_eq!(names(&found), ["join", "apply", "extend"]);
    assert_eq!(found[1].places, ["ledger/src/ledger.rs:5"]);
}

#[test]
fn type_names_in_two_places_are_repeated() {
    let one =
        "pub struct Held(u32);\nenum Once {}\ntype Rows<'a> = &'a [u8];\n    type Err = ();\n";
    let two = "/// struct Once\npub(crate) union Held {\n    pub(super) enum Rows {\ntrait Held: Sized {\n    type Err = ();\nstruct $name;\nmod tests {\n    struct Once;\n}\n";
    let sources = [
        Source::new("a/src/one.rs", one),
        Source::new("a/src/two.rs", two),
        Source::new("a/tests/it.rs", one),
        Source::new("xtask/src/main.rs", one),
        Source::new("web/src/one.ts", "enum Once {}"),
    ];
    let found = readers::repeated_type_names(&sources);
    assert_eq!(names(&found), ["Held", "Rows"]);
    assert_eq!(
        found[0].places,
        ["a/src/one.rs:1", "a/src/two.rs:2", "a/src/two.rs:4"]
    );
}

#[test]
fn counts_above_their_ceilings_fail() {
    let ceilings = parse("# a comment\nbinary codecs   3\njudgements 1\n").unwrap();
    let findings = |count| {
        let source = Source::new("a.rs", "");
        (1..=count).map(|line| source.finding("x", line)).collect()
    };
    let counts = vec![
        ("binary codecs", findings(4)),
        ("judgements", findings(0)),
        ("reads", findings(60)),
    ];
    let above = "binary codecs: 4 is above 3, the ceiling in xtask/house.txt";
    let missing = "xtask/house.txt has no ceiling for reads";
    assert_eq!(excess(&counts, &ceilings), [above, missing]);
    let lines = table(&counts, &ceilings).unwrap();
    assert!(lines.contains("    4        3\n"), "{lines}");
    let list = listing("reads", &counts[2].1).unwrap();
    assert!(list.starts_with("reads\n  x   "), "{list}");
    assert!(list.ends_with(" a.rs:20\n  and 40 more\n"), "{list}");
    assert!(parse("reads\n").is_err());
    assert!(parse("reads many\n").is_err());
}
