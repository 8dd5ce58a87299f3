//! The shape of a message, and text that is compared with it.
//!
//! A template is the message with `{field}` for a value and `<…>` around what some versions leave
//! out. A blank stands for any white space, so a message may be wrapped anywhere between words. In
//! versions that did not fill in their values, `{}` stands in the text and the values follow, one
//! on each line.

/// What a value in a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Field {
    Requested,
    Banks,
    Need,
    Bank,
    Allocated,
    Free,
    Largest,
    Alignment,
    Program,
    Start,
    End,
    OtherEnd,
    Limit,
    Address,
    Width,
    Height,
    Ignored,
    /// From here on, not a number.
    Class,
    CoreType,
    Cores,
}

impl Field {
    const NAMES: [(&'static str, Self); 20] = [
        ("requested", Self::Requested),
        ("banks", Self::Banks),
        ("need", Self::Need),
        ("bank", Self::Bank),
        ("allocated", Self::Allocated),
        ("free", Self::Free),
        ("largest", Self::Largest),
        ("alignment", Self::Alignment),
        ("program", Self::Program),
        ("start", Self::Start),
        ("end", Self::End),
        ("other_end", Self::OtherEnd),
        ("limit", Self::Limit),
        ("address", Self::Address),
        ("width", Self::Width),
        ("height", Self::Height),
        ("ignored", Self::Ignored),
        ("class", Self::Class),
        ("core_type", Self::CoreType),
        ("cores", Self::Cores),
    ];
}

/// The longest list of cores that is taken for one.
const MAX_CORES_BYTES: usize = 512;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Values {
    numbers: [Option<u64>; Field::Class as usize],
    class: Option<String>,
    core_type: Option<String>,
    cores: Option<String>,
}

impl Values {
    pub(super) fn number(&self, field: Field) -> Option<u64> {
        self.numbers.get(field as usize).copied().flatten()
    }

    pub(super) fn text(&self, field: Field) -> Option<&str> {
        match field {
            Field::Class => self.class.as_deref(),
            Field::CoreType => self.core_type.as_deref(),
            Field::Cores => self.cores.as_deref(),
            _number => None,
        }
    }

    /// Takes the value at the begin of a text; what is behind it, if there is one.
    fn take<'t>(&mut self, field: Field, text: &'t str) -> Option<&'t str> {
        let length = match field {
            Field::Class | Field::CoreType => length_while(text, |c| {
                c.is_ascii_alphanumeric() || matches!(c, '_' | ':')
            }),
            Field::Cores => bracketed(text)?,
            _number => length_while(text, |c| c.is_ascii_digit()),
        };
        let (value, rest) = text.split_at(length);
        if value.is_empty() {
            return None;
        }
        match field {
            Field::Class => self.class = Some(value.to_owned()),
            Field::CoreType => self.core_type = Some(value.to_owned()),
            Field::Cores => self.cores = Some(value.to_owned()),
            number => self.numbers[number as usize] = Some(value.parse().ok()?),
        }
        Some(rest)
    }
}

fn length_while(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

/// The length of something in brackets of any kind, nested as they are.
fn bracketed(text: &str) -> Option<usize> {
    let mut open = 0_u32;
    for (at, c) in text.char_indices().take(MAX_CORES_BYTES) {
        match c {
            '[' | '(' | '{' => open += 1,
            ']' | ')' | '}' => {
                open = open.checked_sub(1)?;
                if open == 0 {
                    return Some(at + 1);
                }
            }
            _inside if open == 0 => return None,
            _inside => {}
        }
    }
    None
}

#[derive(Debug)]
enum Token {
    /// Characters without a blank among them.
    Literal(&'static str),
    Blank,
    Value(Field),
    Optional(Vec<Token>),
}

#[derive(Debug)]
pub(super) struct Template {
    tokens: Vec<Token>,
}

/// What became of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Compared {
    /// It is another text.
    Other,
    /// The text ended; more of it may make it the message.
    Begun,
    /// It is the message, with its values and its length in bytes.
    Message {
        values: Box<Values>,
        length: usize,
        /// The text ended within a part that is optional: more of it may add values.
        may_grow: bool,
    },
}

enum Stop {
    Other,
    EndOfText,
}

struct Comparison<'t> {
    rest: &'t str,
    values: Values,
    /// Fields whose values follow the message.
    deferred: Vec<Field>,
    may_grow: bool,
}

impl Template {
    /// # Panics
    /// If it is no template; there is a test that compiles all of them.
    pub(super) fn new(template: &'static str) -> Self {
        let (tokens, rest) = tokens(template);
        assert!(rest.is_empty(), "a > without its <: {template}");
        Self { tokens }
    }

    /// The word that every such message begins with.
    pub(super) fn first_word(&self) -> &'static str {
        match self.tokens.first() {
            Some(Token::Literal(word)) => word,
            _no_word => "",
        }
    }

    pub(super) fn compare(&self, text: &str) -> Compared {
        let mut comparison = Comparison {
            rest: text,
            values: Values::default(),
            deferred: Vec::new(),
            may_grow: false,
        };
        let compared = comparison
            .tokens(&self.tokens)
            .and_then(|()| comparison.deferred_values());
        match compared {
            Ok(()) => Compared::Message {
                length: text.len() - comparison.rest.len(),
                values: Box::new(comparison.values),
                may_grow: comparison.may_grow,
            },
            Err(Stop::EndOfText) => Compared::Begun,
            Err(Stop::Other) => Compared::Other,
        }
    }
}

impl Comparison<'_> {
    fn tokens(&mut self, tokens: &[Token]) -> Result<(), Stop> {
        for token in tokens {
            match token {
                Token::Literal(literal) => self.literal(literal)?,
                Token::Blank => {
                    let trimmed = self.rest.trim_start();
                    if trimmed.len() == self.rest.len() {
                        return Err(if trimmed.is_empty() {
                            Stop::EndOfText
                        } else {
                            Stop::Other
                        });
                    }
                    self.rest = trimmed;
                }
                Token::Value(field) => self.value(*field)?,
                Token::Optional(part) => {
                    let (rest, values) = (self.rest, self.values.clone());
                    let deferred = self.deferred.len();
                    if let Err(stop) = self.tokens(part) {
                        self.may_grow |= matches!(stop, Stop::EndOfText);
                        (self.rest, self.values) = (rest, values);
                        self.deferred.truncate(deferred);
                    }
                }
            }
        }
        Ok(())
    }

    fn literal(&mut self, literal: &str) -> Result<(), Stop> {
        if let Some(rest) = self.rest.strip_prefix(literal) {
            self.rest = rest;
            return Ok(());
        }
        Err(if literal.starts_with(self.rest) {
            Stop::EndOfText
        } else {
            Stop::Other
        })
    }

    fn value(&mut self, field: Field) -> Result<(), Stop> {
        if let Some(rest) = self.rest.strip_prefix("{}") {
            self.deferred.push(field);
            self.rest = rest;
            return Ok(());
        }
        if self.rest.is_empty() {
            return Err(Stop::EndOfText);
        }
        self.rest = self.values.take(field, self.rest).ok_or(Stop::Other)?;
        Ok(())
    }

    fn deferred_values(&mut self) -> Result<(), Stop> {
        for field in std::mem::take(&mut self.deferred) {
            let rest = self.rest.trim_start();
            if rest.is_empty() {
                return Err(Stop::EndOfText);
            }
            self.rest = self.values.take(field, rest).ok_or(Stop::Other)?;
        }
        Ok(())
    }
}

/// The tokens up to the end or to a `>`, and what is behind it.
fn tokens(mut template: &'static str) -> (Vec<Token>, &'static str) {
    let mut found = Vec::new();
    while let Some(first) = template.chars().next() {
        template = match first {
            ' ' => {
                found.push(Token::Blank);
                &template[1..]
            }
            '<' => {
                let (part, rest) = tokens(&template[1..]);
                found.push(Token::Optional(part));
                rest.strip_prefix('>').unwrap_or(rest)
            }
            '>' => return (found, template),
            '{' => {
                let (name, rest) = template[1..].split_once('}').unwrap_or((template, ""));
                let field = Field::NAMES.iter().find(|(known, _field)| *known == name);
                let (_name, field) = field.expect("a test compiles every template");
                found.push(Token::Value(*field));
                rest
            }
            _literal => {
                let end = template.find([' ', '<', '>', '{']);
                let (literal, rest) = template.split_at(end.unwrap_or(template.len()));
                found.push(Token::Literal(literal));
                rest
            }
        };
    }
    (found, template)
}
