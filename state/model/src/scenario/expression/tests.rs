use proptest::prelude::*;

use super::*;

/// Names with values, for the tests.
struct Table<'a>(&'a [(&'a str, u64)]);

impl Lookup for Table<'_> {
    fn value(&self, name: &str) -> Option<u64> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }
}

const VALUES: Table<'_> = Table(&[("devices", 8), ("i", 3), ("zero", 0), ("most", u64::MAX)]);

fn evaluate(text: &str) -> Result<u64, String> {
    let number = Number::parse(text).map_err(|error| error.to_string())?;
    number.evaluate(&VALUES).map_err(|error| error.to_string())
}

#[test]
fn arithmetic_follows_the_usual_order() {
    for (text, value) in [
        ("7", 7),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 3 - 2", 5),
        ("100 / 8 / 3", 4),
        ("6144 / devices", 768),
        ("ceil(33, 32) * 32", 64),
        ("ceil(64, 32)", 2),
        ("ceil(ceil(7, 2), 3)", 2),
        ("24M", 24 << 20),
        ("2K + 1G", 2048 + (1 << 30)),
        ("  devices  ", 8),
        ("most", u64::MAX),
        ("ceil(most, 1)", u64::MAX),
    ] {
        assert_eq!(evaluate(text), Ok(value), "{text}");
    }
}

#[test]
fn what_has_no_value_says_why() {
    for (text, message) in [
        ("1 + j", "in `1 + j`: `j` has no value here"),
        (
            "most + 1",
            "in `most + 1`: 18446744073709551615 + 1 has no value",
        ),
        (
            "most * 2",
            "in `most * 2`: 18446744073709551615 * 2 has no value",
        ),
        ("i - devices", "in `i - devices`: 3 - 8 has no value"),
        ("7 / zero", "in `7 / zero`: 7 / 0 has no value"),
        ("ceil(7, zero)", "in `ceil(7, zero)`: 7 ceil 0 has no value"),
    ] {
        assert_eq!(evaluate(text), Err(message.to_owned()), "{text}");
    }
}

#[test]
fn what_is_no_expression_says_where() {
    for (text, message) in [
        ("", "an expression or name must not be empty"),
        ("  ", "an expression or name must not be empty"),
        (
            "1 +",
            r#"in "1 +": expected a number or a value, found the end"#,
        ),
        ("1 2", r#"in "1 2": expected an operator, found `2`"#),
        ("(1", r#"in "(1": expected `)`, found the end"#),
        ("1)", r#"in "1)": expected an operator, found `)`"#),
        ("-1", r#"in "-1": expected a number or a value, found `-`"#),
        (
            "12abc",
            r#"in "12abc": expected a number below 2^64, found `12abc`"#,
        ),
        ("1.5", r#"in "1.5": expected an operator, found `.`"#),
        ("ü", r#"in "ü": expected a number or a value, found `ü`"#),
        (
            "ceil(1)",
            r#"in "ceil(1)": expected `,` and a second number, found `)`"#,
        ),
        (
            "ceil(1, 2, 3)",
            r#"in "ceil(1, 2, 3)": expected `)`, found `,`"#,
        ),
        (
            "sqrt(4)",
            r#"in "sqrt(4)": expected the only function, ceil(a, b), found `sqrt`"#,
        ),
        (
            "18446744073709551616",
            r#"in "18446744073709551616": expected a number below 2^64, found `18446744073709551616`"#,
        ),
        (
            "99999999999G",
            r#"in "99999999999G": expected a number below 2^64, found `99999999999G`"#,
        ),
    ] {
        assert_eq!(evaluate(text), Err(message.to_owned()), "{text:?}");
    }
}

#[test]
fn length_and_depth_are_bounded() {
    let deep = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(evaluate(&deep(32)), Ok(1));
    assert!(matches!(
        Number::parse(&deep(33)),
        Err(ExpressionError::TooDeep { .. })
    ));
    let long = format!("1{}", "+1".repeat(128));
    assert_eq!(
        Number::parse(&long),
        Err(ExpressionError::TooLong {
            bytes: 257,
            limit: 256
        })
    );
}

#[test]
fn a_number_has_a_limit_where_its_place_has_one() {
    let number = Number::parse("devices * 2").expect("fine");
    assert_eq!(number.evaluate_up_to(16, &VALUES), Ok(16));
    let error = number.evaluate_up_to(15, &VALUES).expect_err("16 is more");
    assert_eq!(
        error.to_string(),
        "`devices * 2` is 16, at most 15 is allowed"
    );
    assert_eq!(number.names().collect::<Vec<_>>(), ["devices"]);
    assert_eq!(Number::from(5).evaluate(&()), Ok(5));
    assert_eq!(Number::from(5).literal(), Some(5));
    assert_eq!(number.literal(), None);
}

#[test]
fn names_have_computed_parts() {
    for (text, name) in [
        ("x", "x"),
        ("wqkv.{i}", "wqkv.3"),
        ("{i}", "3"),
        ("kv {i + 1}/{devices}", "kv 4/8"),
        ("a{i}{i}b", "a33b"),
    ] {
        let template = NameTemplate::parse(text).expect("a name");
        assert_eq!(template.render(&VALUES).as_deref(), Ok(name));
    }
    let template = NameTemplate::parse("a{j}{i}").expect("a name");
    assert_eq!(template.names().collect::<Vec<_>>(), ["j", "i"]);
    assert!(template.render(&VALUES).is_err());
}

#[test]
fn names_are_short_and_printable() {
    for text in [
        "",
        "a{i",
        "a}",
        "a{i}}",
        "{}",
        "{i j}",
        "tab\t",
        "ü",
        &"a".repeat(129),
    ] {
        assert!(NameTemplate::parse(text).is_err(), "{text:?}");
    }
    assert!(NameTemplate::parse(&"a".repeat(128)).is_ok());
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[0-9a-zKMG_ ,(){}+*/%-]{0,60}|\\PC{0,40}") {
        if let Ok(number) = Number::parse(&text) {
            // An answer, whatever it is.
            let _answer = number.evaluate(&VALUES);
            prop_assert!(!number.instructions.is_empty());
        }
        if let Ok(name) = NameTemplate::parse(&text) {
            prop_assert!(!name.parts.is_empty());
        }
    }

    #[test]
    fn sums_and_products_are_those_of_u64(a in 0_u64..1 << 31, b in 1_u64..1 << 31, c in 1_u64..1 << 31) {
        prop_assert_eq!(evaluate(&format!("{a} + {b} * {c}")), Ok(a + b * c));
        prop_assert_eq!(evaluate(&format!("({a} + {b}) / {c}")), Ok((a + b) / c));
        prop_assert_eq!(evaluate(&format!("ceil({a}, {b})")), Ok(a.div_ceil(b)));
    }
}
