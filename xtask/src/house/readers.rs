//! Counts that follow from a rule: each reader goes through the lines of the sources, which are formatted by rustfmt.

use super::Finding;
use super::sources::{Part, Source, extension};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Public methods of the ledger that need `&mut self` and change nothing that a `View` shows.
const NOT_MUTATORS: [&str; 3] = [
    // Takes a view, and remembers which rows were copied for it.
    "view",
    // These drain notes that are written to the log.
    "take_newly_incomplete",
    "take_omitted_effects",
];

/// The lines of tests with the path of a product file that is in another language.
pub(super) fn foreign_reads(sources: &[Source]) -> Vec<Finding> {
    let product = sources
        .iter()
        .filter(|source| source.part() == Part::Product);
    let product: Vec<String> = product.map(|source| format!("/{}", source.path)).collect();
    let is_product = |path: &str| {
        let end = format!("/{path}");
        product.iter().any(|known| known.ends_with(&end))
    };
    let mut found = Vec::new();
    for source in sources {
        let lines = source.lines(Part::Tests);
        for (line, text) in lines.filter(|(_line, text)| !is_comment(text)) {
            let literals = text.split(['"', '\'', '`']);
            let paths = literals.filter_map(|literal| literal.rsplit("../").next());
            let foreign = paths.filter(|path| extension(path) != source.extension());
            let foreign = foreign.filter(|path| !path.is_empty() && is_product(path));
            found.extend(foreign.map(|path| source.finding(path, line)));
        }
    }
    found
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("//") || line.starts_with("# ")
}

/// The public methods by which the ledger changes.
pub(super) fn ledger_mutators(sources: &[Source]) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.extension() == "rs") {
        let mut visibility = None;
        let lines: Vec<(usize, &str)> = source.lines(Part::Product).collect();
        for (place, (line, text)) in lines.iter().enumerate() {
            if text.starts_with("impl") && text.ends_with(" Ledger {") {
                // The methods of a trait are as public as the trait.
                let is_of_trait = text.contains(" for ");
                visibility = Some(if is_of_trait { "    " } else { "    pub " });
            } else if *text == "}" {
                visibility = None;
            }
            let method = visibility.and_then(|visibility| text.strip_prefix(visibility));
            let name = method.and_then(method_name);
            let name = name.filter(|name| !NOT_MUTATORS.contains(name));
            let name = name.filter(|_name| takes_mut_self(&lines[place..]));
            found.extend(name.map(|name| source.finding(name, *line)));
        }
    }
    found
}

/// The name of the method that starts on a line, given from behind its visibility.
fn method_name(line: &str) -> Option<&str> {
    let (words, rest) = line.split_once("fn ")?;
    let is_method = words
        .split(' ')
        .all(|word| matches!(word, "" | "const" | "unsafe"));
    rest.split(['(', '<']).next().filter(|_name| is_method)
}

/// Whether the signature at the start of these lines has `&mut self`.
fn takes_mut_self(lines: &[(usize, &str)]) -> bool {
    let is_end = |line: &str| line.ends_with(['{', '}', ';']);
    let end = lines.iter().position(|(_number, line)| is_end(line));
    let mut signature = lines.iter().take(end.map_or(0, |end| end + 1));
    signature.any(|(_number, line)| line.contains("&mut self"))
}

/// The names of types that are defined in more than one place of the product, those with the most places first.
pub(super) fn repeated_type_names(sources: &[Source]) -> Vec<Finding> {
    let mut types: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.extension() == "rs") {
        for (line, text) in source.lines(Part::Product) {
            if let Some(name) = type_name(text) {
                types.entry(name).or_default().push(source.place(line));
            }
        }
    }
    let repeated = types.into_iter().filter(|(_name, places)| places.len() > 1);
    let finding = |(name, places): (&str, _)| Finding {
        name: name.to_owned(),
        places,
    };
    let mut repeated: Vec<Finding> = repeated.map(finding).collect();
    repeated.sort_by_key(|finding| Reverse(finding.places.len()));
    repeated
}

/// The type that a line defines.
fn type_name(line: &str) -> Option<&str> {
    let words = line.split(' ').filter(|word| !word.is_empty());
    let mut words = words.skip_while(|word| word.starts_with("pub") || *word == "unsafe");
    let is_definition = match words.next()? {
        "struct" | "enum" | "trait" | "union" => true,
        // An indented one is an associated type, which its trait names.
        "type" => !line.starts_with(' '),
        _other => false,
    };
    let is_end = |c: char| !c.is_alphanumeric() && c != '_';
    let name = words.next()?.split(is_end).next()?;
    (is_definition && name.starts_with(char::is_uppercase)).then_some(name)
}
