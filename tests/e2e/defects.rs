//! The list of the predecessor's defects, as far as it speaks of the tests here.

use crate::support::place::source;
use std::fs;

#[test]
fn the_list_names_tests_that_exist() {
    let root = source("");
    let list = fs::read_to_string(root.join("docs/defects.md")).expect("the list");
    let mut named = 0;
    for name in list
        .split('`')
        .filter_map(|code| code.strip_prefix("e2e::"))
    {
        let Some((module, test)) = name.rsplit_once("::") else {
            continue;
        };
        let file = root
            .join("tests/e2e")
            .join(module.replace("::", "/"))
            .with_extension("rs");
        let source = fs::read_to_string(&file).expect(name);
        assert!(source.contains(&format!("#[test]\nfn {test}()")), "{name}");
        named += 1;
    }
    assert!(named > 20, "{named} tests are named");
}
