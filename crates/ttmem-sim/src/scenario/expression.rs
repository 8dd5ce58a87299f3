//! Numbers and names that are computed when a step runs.
//!
//! Owns the little arithmetic of scenario files: whole numbers that are not
//! negative, the values of the file, `+ - * / %`, parentheses, `min(a, b)`,
//! `max(a, b)` and `ceil(a, b)`, a division that rounds up. `K`, `M` and `G` behind
//! a number multiply it by 1024 once, twice and three times. An expression is
//! turned into a list of instructions when the file is read; nothing recurses when
//! it is computed, and every overflow is an error.

use std::fmt;

mod read;

pub use read::ExpressionError;
pub(super) use read::is_name;

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

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluateError {
    /// A name without a value.
    #[error("in `{expression}`: `{name}` has no value here")]
    UnknownValue { expression: String, name: String },
    /// A result that does not fit 64 bits.
    #[error("in `{expression}`: {left} {operator} {right} is too large")]
    Overflow {
        expression: String,
        left: u64,
        operator: Operator,
        right: u64,
    },
    /// A result below 0.
    #[error("in `{expression}`: {left} - {right} is below 0")]
    BelowZero {
        expression: String,
        left: u64,
        right: u64,
    },
    /// A division by 0.
    #[error("in `{expression}`: {left} is divided by 0")]
    DivisionByZero { expression: String, left: u64 },
    /// A number beyond what its place allows.
    #[error("`{expression}` is {value}, at most {limit} is allowed")]
    BeyondLimit {
        expression: String,
        value: u64,
        /// The most it may be.
        limit: u64,
    },
    /// A range that ends before it begins, or never.
    #[error("no value of `{name}` lies from {from} to {to} in steps of {step}")]
    EmptyRange {
        /// The value that is drawn from it.
        name: String,
        /// The first number.
        from: u64,
        /// The last.
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
    Remainder,
    Min,
    Max,
    DivideUp,
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Min => "min",
            Self::Max => "max",
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

/// An expression of a scenario file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    text: String,
    instructions: Vec<Instruction>,
}

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    ///
    /// If the text is none; the message shows it and the place.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        Ok(Self {
            text: text.trim().to_owned(),
            instructions: read::instructions(text)?,
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
                    self.apply(*operator, left, right)?
                }
            };
            stack.push(value);
        }
        Ok(stack.pop().expect("an expression has at least one operand"))
    }

    fn apply(&self, operator: Operator, left: u64, right: u64) -> Result<u64, EvaluateError> {
        let result = match operator {
            Operator::Add => left.checked_add(right),
            Operator::Subtract => left.checked_sub(right),
            Operator::Multiply => left.checked_mul(right),
            Operator::Divide => left.checked_div(right),
            Operator::Remainder => left.checked_rem(right),
            Operator::Min => Some(left.min(right)),
            Operator::Max => Some(left.max(right)),
            Operator::DivideUp => (right > 0).then(|| left.div_ceil(right)),
        };
        result.ok_or_else(|| {
            let expression = self.text.clone();
            match operator {
                Operator::Divide | Operator::Remainder | Operator::DivideUp => {
                    EvaluateError::DivisionByZero { expression, left }
                }
                Operator::Subtract => EvaluateError::BelowZero {
                    expression,
                    left,
                    right,
                },
                _ => EvaluateError::Overflow {
                    expression,
                    left,
                    operator,
                    right,
                },
            }
        })
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

/// A number of a scenario file: written out, or computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Number {
    Literal(u64),
    /// Computed when it is needed.
    Expression(Expression),
}

impl Number {
    /// Its value.
    ///
    /// # Errors
    ///
    /// As for [`Expression::evaluate`].
    pub fn evaluate(&self, lookup: &dyn Lookup) -> Result<u64, EvaluateError> {
        match self {
            Self::Literal(number) => Ok(*number),
            Self::Expression(expression) => expression.evaluate(lookup),
        }
    }

    /// Its value, if that is at most `limit`.
    ///
    /// # Errors
    ///
    /// As for [`Expression::evaluate`], and if it is more.
    pub fn evaluate_up_to(&self, limit: u64, lookup: &dyn Lookup) -> Result<u64, EvaluateError> {
        let value = self.evaluate(lookup)?;
        if value > limit {
            return Err(EvaluateError::BeyondLimit {
                expression: self.to_string(),
                value,
                limit,
            });
        }
        Ok(value)
    }

    /// The names it needs values for.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let expression = match self {
            Self::Literal(_) => None,
            Self::Expression(expression) => Some(expression),
        };
        expression.into_iter().flat_map(Expression::names)
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self::Literal(number)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(number) => number.fmt(f),
            Self::Expression(expression) => f.write_str(&expression.text),
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
    Expression(Expression),
}

impl NameTemplate {
    /// Reads a name with its expressions in braces.
    ///
    /// # Errors
    ///
    /// If it is empty, too long, not printable ASCII, or an expression in it is none.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        read::parts(text).map(|parts| Self { parts })
    }

    /// The name, its expressions replaced by their values.
    ///
    /// # Errors
    ///
    /// As for [`Expression::evaluate`].
    pub fn render(&self, lookup: &dyn Lookup) -> Result<String, EvaluateError> {
        let mut name = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => name.push_str(text),
                Part::Expression(expression) => {
                    name.push_str(&expression.evaluate(lookup)?.to_string());
                }
            }
        }
        Ok(name)
    }

    /// The names of values it needs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let expressions = self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Expression(expression) => Some(expression),
        });
        expressions.flat_map(Expression::names)
    }
}

#[cfg(test)]
mod tests;
