//! Numbers and names that are computed when a step runs.
//!
//! Owns the little arithmetic of scenario files: whole numbers that are not
//! negative, the values of the file, `+ - * /`, parentheses, and `ceil(a, b)`, a division
//! that rounds up. `K`, `M` and `G` behind a number multiply it by 1024 once, twice and
//! three times. An expression is turned into a list of instructions when the file is read;
//! nothing recurses when it is computed, and every overflow is an error.

use std::fmt;

const EXPRESSION_BYTES: usize = 256;

/// Longest name, its expressions included.
const NAME_BYTES: usize = 128;

/// Parentheses within parentheses, calls included.
const DEPTH: usize = 32;

/// Where the values of names come from when an expression is computed.
pub trait Lookup {
    /// The value of a name, if it has one.
    fn value(&self, name: &str) -> Option<u64>;
}

/// Nothing has a value: for numbers that must not depend on anything.
impl Lookup for () {
    fn value(&self, _name: &str) -> Option<u64> {
        None
    }
}

/// Why a text is no expression, or no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    #[error("an expression or name must not be empty")]
    Empty,
    #[error("{bytes} characters are too many, {limit} are allowed")]
    TooLong { bytes: usize, limit: usize },
    #[error("in {text:?}: parentheses are nested deeper than {DEPTH}")]
    TooDeep { text: String },
    #[error("in {text:?}: expected {expected}, found {found}")]
    Unexpected {
        text: String,
        expected: &'static str,
        found: String,
    },
    #[error("the name {text:?} has {found:?} in it: only printable ASCII, and {{}} in pairs")]
    BadLetter { text: String, found: char },
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluateError {
    #[error("in `{expression}`: `{name}` has no value here")]
    UnknownValue { expression: String, name: String },
    /// An operation whose result is below 0, beyond 64 bits, or a division by 0.
    #[error("in `{expression}`: {left} {operator} {right} has no value")]
    NoResult {
        expression: String,
        left: u64,
        operator: Operator,
        right: u64,
    },
    /// A number beyond what its place allows.
    #[error("`{expression}` is {value}, at most {limit} is allowed")]
    BeyondLimit {
        expression: String,
        value: u64,
        limit: u64,
    },
    /// A range that ends before it begins, or never.
    #[error("no value of `{name}` lies from {from} to {to} in steps of {step}")]
    EmptyRange {
        name: String,
        from: u64,
        to: u64,
        step: u64,
    },
}

/// What is done with two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    DivideUp,
}

impl Operator {
    fn apply(self, left: u64, right: u64) -> Option<u64> {
        match self {
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
            Self::Divide => left.checked_div(right),
            Self::DivideUp => (right > 0).then(|| left.div_ceil(right)),
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::DivideUp => "ceil",
        })
    }
}

/// One instruction: numbers go onto a stack, operators take two from it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Instruction {
    Push(u64),
    Load(String),
    Apply(Operator),
}

/// A number of a scenario file: written out, or an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    text: String,
    instructions: Vec<Instruction>,
}

impl Number {
    /// Reads an expression.
    ///
    /// # Errors
    ///
    /// If the text is none; the message shows it and the place.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        check_length(text, EXPRESSION_BYTES)?;
        let mut reader = Reader {
            text,
            rest: text.trim_start(),
            depth: 0,
            instructions: Vec::new(),
        };
        reader.sum()?;
        if !reader.rest.is_empty() {
            return Err(reader.unexpected("an operator"));
        }
        Ok(Self {
            text: text.trim().to_owned(),
            instructions: reader.instructions,
        })
    }

    /// Its value.
    ///
    /// # Errors
    ///
    /// If a name has no value, or the result of an operation none in 64 bits.
    pub fn evaluate(&self, lookup: &dyn Lookup) -> Result<u64, EvaluateError> {
        let mut stack: Vec<u64> = Vec::with_capacity(4);
        for instruction in &self.instructions {
            let value = match instruction {
                Instruction::Push(number) => *number,
                Instruction::Load(name) => {
                    lookup
                        .value(name)
                        .ok_or_else(|| EvaluateError::UnknownValue {
                            expression: self.text.clone(),
                            name: name.clone(),
                        })?
                }
                Instruction::Apply(operator) => {
                    let right = stack.pop().expect("an operator follows its two operands");
                    let left = stack.pop().expect("an operator follows its two operands");
                    operator
                        .apply(left, right)
                        .ok_or_else(|| EvaluateError::NoResult {
                            expression: self.text.clone(),
                            left,
                            operator: *operator,
                            right,
                        })?
                }
            };
            stack.push(value);
        }
        Ok(stack.pop().expect("an expression has at least one operand"))
    }

    /// Its value, if that is at most `limit`.
    ///
    /// # Errors
    ///
    /// As for [`Number::evaluate`], and if it is more.
    pub fn evaluate_up_to(&self, limit: u64, lookup: &dyn Lookup) -> Result<u64, EvaluateError> {
        let value = self.evaluate(lookup)?;
        if value > limit {
            return Err(EvaluateError::BeyondLimit {
                expression: self.text.clone(),
                value,
                limit,
            });
        }
        Ok(value)
    }

    /// Its value, if it is written out.
    #[must_use]
    pub fn literal(&self) -> Option<u64> {
        match self.instructions.as_slice() {
            [Instruction::Push(number)] => Some(*number),
            _ => None,
        }
    }

    /// The names it needs values for.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.instructions
            .iter()
            .filter_map(|instruction| match instruction {
                Instruction::Load(name) => Some(name.as_str()),
                Instruction::Push(_) | Instruction::Apply(_) => None,
            })
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self {
            text: number.to_string(),
            instructions: vec![Instruction::Push(number)],
        }
    }
}

/// A name with computed parts, such as `wqkv.{i}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameTemplate {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Number(Number),
}

impl NameTemplate {
    /// Reads a name with its expressions in braces.
    ///
    /// # Errors
    ///
    /// If it is empty, too long, not printable ASCII, or an expression in it is none.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        check_length(text, NAME_BYTES)?;
        let bad = |found| ExpressionError::BadLetter {
            text: text.to_owned(),
            found,
        };
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (plain, braced) = rest.split_at(rest.find('{').unwrap_or(rest.len()));
            let is_bad = |c: &char| !(c.is_ascii_graphic() || *c == ' ') || *c == '}';
            if let Some(found) = plain.chars().find(is_bad) {
                return Err(bad(found));
            }
            if !plain.is_empty() {
                parts.push(Part::Text(plain.to_owned()));
            }
            rest = match braced.strip_prefix('{') {
                Some(behind) => {
                    let (expression, behind) = behind.split_once('}').ok_or_else(|| bad('{'))?;
                    parts.push(Part::Number(Number::parse(expression)?));
                    behind
                }
                None => braced,
            };
        }
        Ok(Self { parts })
    }

    /// The name, its expressions replaced by their values.
    ///
    /// # Errors
    ///
    /// As for [`Number::evaluate`].
    pub fn render(&self, lookup: &dyn Lookup) -> Result<String, EvaluateError> {
        let mut name = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => name.push_str(text),
                Part::Number(number) => name.push_str(&number.evaluate(lookup)?.to_string()),
            }
        }
        Ok(name)
    }

    /// The names of values it needs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let numbers = self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Number(number) => Some(number),
        });
        numbers.flat_map(Number::names)
    }
}

/// Whether a text can name a value, a block or a trace.
pub(super) fn is_name(text: &str) -> bool {
    text.len() <= NAME_BYTES
        && text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.chars().all(is_name_char)
}

fn is_name_char(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

fn check_length(text: &str, limit: usize) -> Result<(), ExpressionError> {
    if text.trim().is_empty() {
        return Err(ExpressionError::Empty);
    }
    if text.len() > limit {
        let bytes = text.len();
        return Err(ExpressionError::TooLong { bytes, limit });
    }
    Ok(())
}

/// The value of digits with `K`, `M` or `G` behind them, if they are that and fit 64 bits.
fn number(word: &str) -> Option<u64> {
    let (digits, unit) = match word.split_at_checked(word.len() - 1)? {
        (digits, "K") => (digits, 1 << 10),
        (digits, "M") => (digits, 1 << 20),
        (digits, "G") => (digits, 1 << 30),
        _ => (word, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// A recursive descent with a bound on its depth, over text of a bounded length.
struct Reader<'a> {
    text: &'a str,
    /// What is not read yet, without leading blanks.
    rest: &'a str,
    depth: usize,
    instructions: Vec<Instruction>,
}

impl<'a> Reader<'a> {
    /// The letters, digits and `_` that come next; none if a sign does.
    fn word(&self) -> &'a str {
        let end = self.rest.find(|letter| !is_name_char(letter));
        &self.rest[..end.unwrap_or(self.rest.len())]
    }

    /// Takes this text, if it comes next.
    fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(behind) => {
                self.rest = behind.trim_start();
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, sign: &str, expected: &'static str) -> Result<(), ExpressionError> {
        if self.take(sign) {
            Ok(())
        } else {
            Err(self.unexpected(expected))
        }
    }

    fn unexpected(&self, expected: &'static str) -> ExpressionError {
        let found = match (self.word(), self.rest.chars().next()) {
            (_, None) => "the end".to_owned(),
            ("", Some(sign)) => format!("`{sign}`"),
            (word, _) => format!("`{word}`"),
        };
        ExpressionError::Unexpected {
            text: self.text.to_owned(),
            expected,
            found,
        }
    }

    fn sum(&mut self) -> Result<(), ExpressionError> {
        let operators = [("+", Operator::Add), ("-", Operator::Subtract)];
        self.chain(operators, Self::product)
    }

    fn product(&mut self) -> Result<(), ExpressionError> {
        let operators = [("*", Operator::Multiply), ("/", Operator::Divide)];
        self.chain(operators, Self::operand)
    }

    /// Operands with operators of one rank between them, from left to right.
    fn chain(
        &mut self,
        operators: [(&str, Operator); 2],
        operand: fn(&mut Self) -> Result<(), ExpressionError>,
    ) -> Result<(), ExpressionError> {
        operand(self)?;
        while let Some((_sign, operator)) = operators.iter().find(|(sign, _)| self.take(sign)) {
            operand(self)?;
            self.instructions.push(Instruction::Apply(*operator));
        }
        Ok(())
    }

    fn operand(&mut self) -> Result<(), ExpressionError> {
        if self.take("(") {
            self.nested()?;
            return self.expect(")", "`)`");
        }
        let word = self.word();
        if word.starts_with(|first: char| first.is_ascii_digit()) {
            let number = number(word).ok_or_else(|| self.unexpected("a number below 2^64"))?;
            self.instructions.push(Instruction::Push(number));
            self.take(word);
            return Ok(());
        }
        if word.is_empty() {
            return Err(self.unexpected("a number or a value"));
        }
        self.take(word);
        if !self.take("(") {
            self.instructions.push(Instruction::Load(word.to_owned()));
            return Ok(());
        }
        if word != "ceil" {
            return Err(ExpressionError::Unexpected {
                text: self.text.to_owned(),
                expected: "the only function, ceil(a, b)",
                found: format!("`{word}`"),
            });
        }
        self.nested()?;
        self.expect(",", "`,` and a second number")?;
        self.nested()?;
        self.expect(")", "`)`")?;
        self.instructions
            .push(Instruction::Apply(Operator::DivideUp));
        Ok(())
    }

    fn nested(&mut self) -> Result<(), ExpressionError> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(ExpressionError::TooDeep {
                text: self.text.to_owned(),
            });
        }
        self.sum()?;
        self.depth -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
