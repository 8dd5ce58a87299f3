//! Reads expressions and names with expressions, into instructions.
//!
//! A recursive descent with a bound on its depth; it sees text of a bounded length
//! and allocates no more than a small multiple of it.

use std::fmt;

use super::{Expression, Instruction, Operator, Part};

const EXPRESSION_CHARS: usize = 256;

/// Longest name, its expressions included.
const NAME_CHARS: usize = 128;

/// Parentheses within parentheses, calls included.
const DEPTH: usize = 32;

/// Why a text is no expression, or no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    #[error("an expression or name must not be empty")]
    Empty,
    #[error("{chars} characters are too many, {limit} are allowed")]
    TooLong { chars: usize, limit: usize },
    /// Too many parentheses within each other.
    #[error("in {text:?}: parentheses are nested deeper than {DEPTH}")]
    TooDeep { text: String },
    /// A number beyond 64 bits.
    #[error("in {text:?}: {number} is too large a number")]
    NumberTooLarge { text: String, number: String },
    /// Something that cannot be there.
    #[error("in {text:?}: expected {expected}, found {found}")]
    Unexpected {
        text: String,
        expected: &'static str,
        found: String,
    },
    /// A function that there is not.
    #[error("in {text:?}: there is no function `{name}`, only min, max and ceil")]
    UnknownFunction { text: String, name: String },
    /// A letter that names do not have.
    #[error("the name {text:?} has {found:?} in it: only printable ASCII, and {{}} in pairs")]
    BadLetter { text: String, found: char },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Number(u64),
    Name(String),
    Sign(char),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "`{number}`"),
            Self::Name(name) => write!(f, "`{name}`"),
            Self::Sign(sign) => write!(f, "`{sign}`"),
        }
    }
}

/// Whether a text can name a value, a block or a trace.
pub(in super::super) fn is_name(text: &str) -> bool {
    text.len() <= NAME_CHARS
        && text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.chars().all(is_name_char)
}

fn is_name_char(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// The instructions that compute an expression.
pub(super) fn instructions(text: &str) -> Result<Vec<Instruction>, ExpressionError> {
    check_length(text, EXPRESSION_CHARS)?;
    let mut reader = Reader {
        text,
        tokens: tokens(text)?,
        at: 0,
        depth: 0,
        instructions: Vec::new(),
    };
    reader.sum()?;
    match reader.peek() {
        None => Ok(reader.instructions),
        Some(_) => Err(reader.unexpected("an operator")),
    }
}

/// The parts of a name: text, and expressions in braces.
pub(super) fn parts(text: &str) -> Result<Vec<Part>, ExpressionError> {
    check_length(text, NAME_CHARS)?;
    let bad = |found| ExpressionError::BadLetter {
        text: text.to_owned(),
        found,
    };
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (plain, expression) = match rest.split_once('{') {
            None => (std::mem::take(&mut rest), None),
            Some((plain, behind)) => {
                let (expression, behind) = behind.split_once('}').ok_or_else(|| bad('{'))?;
                rest = behind;
                (plain, Some(expression))
            }
        };
        if let Some(found) = plain
            .chars()
            .find(|c| !(c.is_ascii_graphic() || *c == ' ') || *c == '}')
        {
            return Err(bad(found));
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain.to_owned()));
        }
        if let Some(expression) = expression {
            parts.push(Part::Expression(Expression::parse(expression)?));
        }
    }
    Ok(parts)
}

fn check_length(text: &str, limit: usize) -> Result<(), ExpressionError> {
    if text.trim().is_empty() {
        return Err(ExpressionError::Empty);
    }
    // Bytes bound the characters, and are what a message may have to repeat.
    if text.len() > limit {
        return Err(ExpressionError::TooLong {
            chars: text.len(),
            limit,
        });
    }
    Ok(())
}

fn tokens(text: &str) -> Result<Vec<Token>, ExpressionError> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let word_end = rest
            .find(|letter| !is_name_char(letter))
            .unwrap_or(rest.len());
        let (word, behind) = rest.split_at(word_end);
        if first.is_ascii_digit() {
            tokens.push(Token::Number(number(text, word)?));
            rest = behind;
        } else if is_name_char(first) {
            tokens.push(Token::Name(word.to_owned()));
            rest = behind;
        } else if "+-*/%(),".contains(first) {
            tokens.push(Token::Sign(first));
            rest = rest.strip_prefix(first).unwrap_or_default();
        } else {
            return Err(ExpressionError::Unexpected {
                text: text.to_owned(),
                expected: "a number, a value or an operator",
                found: format!("{first:?}"),
            });
        }
        rest = rest.trim_start();
    }
    Ok(tokens)
}

/// The value of digits, with `_` between them and `K`, `M` or `G` behind them.
fn number(text: &str, word: &str) -> Result<u64, ExpressionError> {
    let (digits, unit) = match word.chars().next_back() {
        Some('K') => (word.strip_suffix('K'), 1 << 10),
        Some('M') => (word.strip_suffix('M'), 1 << 20),
        Some('G') => (word.strip_suffix('G'), 1 << 30),
        _ => (Some(word), 1_u64),
    };
    let mut value = Some(0_u64);
    for letter in digits.unwrap_or_default().chars() {
        let digit = match letter.to_digit(10) {
            Some(digit) => u64::from(digit),
            None if letter == '_' => continue,
            None => {
                return Err(ExpressionError::Unexpected {
                    text: text.to_owned(),
                    expected: "a number",
                    found: format!("`{word}`"),
                });
            }
        };
        value = value
            .and_then(|value| value.checked_mul(10))
            .and_then(|value| value.checked_add(digit));
    }
    value
        .and_then(|value| value.checked_mul(unit))
        .ok_or_else(|| ExpressionError::NumberTooLarge {
            text: text.to_owned(),
            number: word.to_owned(),
        })
}

struct Reader<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    instructions: Vec<Instruction>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    /// Takes one of the signs, if it comes next.
    fn take(&mut self, signs: &str) -> Option<char> {
        match self.peek() {
            Some(Token::Sign(sign)) if signs.contains(*sign) => {
                let sign = *sign;
                self.at += 1;
                Some(sign)
            }
            _ => None,
        }
    }

    fn expect(&mut self, sign: &str, expected: &'static str) -> Result<(), ExpressionError> {
        match self.take(sign) {
            Some(_) => Ok(()),
            None => Err(self.unexpected(expected)),
        }
    }

    fn unexpected(&self, expected: &'static str) -> ExpressionError {
        ExpressionError::Unexpected {
            text: self.text.to_owned(),
            expected,
            found: self
                .peek()
                .map_or_else(|| "the end".to_owned(), Token::to_string),
        }
    }

    fn apply(&mut self, operator: Operator) {
        self.instructions.push(Instruction::Apply(operator));
    }

    fn sum(&mut self) -> Result<(), ExpressionError> {
        self.product()?;
        while let Some(sign) = self.take("+-") {
            self.product()?;
            self.apply(if sign == '+' {
                Operator::Add
            } else {
                Operator::Subtract
            });
        }
        Ok(())
    }

    fn product(&mut self) -> Result<(), ExpressionError> {
        self.operand()?;
        while let Some(sign) = self.take("*/%") {
            self.operand()?;
            self.apply(match sign {
                '*' => Operator::Multiply,
                '/' => Operator::Divide,
                _ => Operator::Remainder,
            });
        }
        Ok(())
    }

    fn operand(&mut self) -> Result<(), ExpressionError> {
        if self.take("(").is_some() {
            self.nested()?;
            return self.expect(")", "`)`");
        }
        match self.peek().cloned() {
            Some(Token::Number(number)) => {
                self.at += 1;
                self.instructions.push(Instruction::Push(number));
                Ok(())
            }
            Some(Token::Name(name)) => {
                self.at += 1;
                if self.take("(").is_some() {
                    self.call(name)
                } else {
                    self.instructions.push(Instruction::Load(name));
                    Ok(())
                }
            }
            Some(Token::Sign(_)) | None => Err(self.unexpected("a number or a value")),
        }
    }

    fn call(&mut self, name: String) -> Result<(), ExpressionError> {
        let operator = match name.as_str() {
            "min" => Operator::Min,
            "max" => Operator::Max,
            "ceil" => Operator::DivideUp,
            _ => {
                return Err(ExpressionError::UnknownFunction {
                    text: self.text.to_owned(),
                    name,
                });
            }
        };
        self.nested()?;
        self.expect(",", "`,` and a second number")?;
        self.nested()?;
        self.expect(")", "`)`")?;
        self.apply(operator);
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
