//! What can be wrong with a scenario file, and where in it.

use super::expression::{EvaluateError, ExpressionError};

/// A scenario file that cannot be played as it is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {problem}", .line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct ScenarioError {
    /// The name the file was given.
    pub file: String,
    /// The line, counted from 1, where one can be named.
    pub line: Option<usize>,
    pub problem: Problem,
}

/// What is wrong with a scenario file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// More text than a scenario needs.
    #[error("{bytes} bytes are too many for a scenario, {limit} are allowed")]
    TextTooLong { bytes: usize, limit: usize },
    /// Not TOML, or a field that is unknown, missing or of another type.
    #[error("{message}")]
    Format { message: String },
    /// More of something than a scenario may have.
    #[error("{count} {what} are too many, {limit} are allowed")]
    TooMany {
        what: &'static str,
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A list that needs something in it.
    #[error("{what} must not be empty")]
    Empty { what: &'static str },
    /// A name with letters that names do not have.
    #[error(
        "{what} {name:?}: a name has letters, digits and `_`, and begins with none of the digits"
    )]
    BadName { what: &'static str, name: String },
    /// A name that means something else already.
    #[error("`{name}` is a {meaning}, choose another name for this {what}")]
    TakenName {
        what: &'static str,
        name: String,
        meaning: &'static str,
    },
    /// A word that is none of those it may be.
    #[error("unknown {what} {name:?}, expected one of: {expected}")]
    UnknownWord {
        what: &'static str,
        name: String,
        /// The words it may be.
        expected: String,
    },
    /// A step without a verb.
    #[error("this step does nothing, expected one of: {expected}")]
    NoVerb { expected: String },
    /// A step with a field of another kind of step.
    #[error("`{field}` does not belong to step `{verb}`{}", takes(.allowed))]
    ForeignField {
        verb: &'static str,
        field: &'static str,
        /// The fields it may have.
        allowed: &'static [&'static str],
    },
    /// A step without a field that it needs.
    #[error("step `{verb}` needs `{field}`")]
    MissingField {
        verb: &'static str,
        field: &'static str,
    },
    /// A field whose value makes no sense.
    #[error("`{field}`: {reason}")]
    BadField { field: &'static str, reason: String },
    /// A block that nobody wrote.
    #[error("there is no block `{name}`")]
    UnknownBlock { name: String },
    /// A scenario to take blocks of that is not in the library.
    #[error("there is no scenario {name:?} to take blocks of")]
    UnknownScenario { name: String },
    /// A block that runs itself.
    #[error("block `{name}` runs itself: {path}")]
    Recursion {
        name: String,
        /// From the block to itself.
        path: String,
    },
    /// Blocks that run blocks that run blocks.
    #[error("blocks are nested deeper than {limit}")]
    NestedTooDeep {
        /// How deep they may be.
        limit: usize,
    },
    /// A trace that is never captured.
    #[error("no step captures a trace `{name}`")]
    UnknownTrace { name: String },
    /// A value that nobody gives.
    #[error("nothing gives `{name}` a value here: neither [values] nor a `for` around it")]
    UnknownValue { name: String },
    /// A value that is no choice, so nothing can be drawn.
    #[error("`{name}` is no choice: only values with `from` and `to` can be picked")]
    NothingToPick { name: String },
    /// Values that need each other.
    #[error("the values {names} need each other")]
    CircularValues { names: String },
    /// A mesh that the board does not have.
    #[error("{board} has a mesh of {whole} chips: {wanted} cannot be taken from it")]
    MeshTooLarge {
        board: &'static str,
        /// Rows x columns of the mesh it is taken from.
        whole: String,
        /// Rows x columns that are wanted.
        wanted: String,
    },
    /// A way to dispatch that the board does not have.
    #[error("{board} cannot dispatch {dispatch}")]
    NoSuchDispatch {
        board: &'static str,
        dispatch: &'static str,
    },
    /// An expression that cannot be read.
    #[error(transparent)]
    Expression(#[from] ExpressionError),
    /// A number that has no value.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
}

fn takes(allowed: &[&str]) -> String {
    if allowed.is_empty() {
        ", which takes no other field".to_owned()
    } else {
        format!(", which takes: {}", allowed.join(", "))
    }
}

impl Problem {
    /// The problem, at a line.
    pub(super) fn at(self, line: usize) -> Located {
        Located {
            line: Some(line),
            problem: self,
        }
    }
}

/// A problem and its line: what a file's name is still missing from.
#[derive(Debug)]
pub(super) struct Located {
    line: Option<usize>,
    problem: Problem,
}

impl Located {
    /// The problem at this line, if it has none of its own.
    pub(super) fn or_at(self, line: usize) -> Self {
        Self {
            line: self.line.or(Some(line)),
            ..self
        }
    }

    /// The error, with the file's name.
    pub(super) fn in_file(self, file: &str) -> ScenarioError {
        ScenarioError {
            file: file.to_owned(),
            line: self.line,
            problem: self.problem,
        }
    }
}

impl<P: Into<Problem>> From<P> for Located {
    fn from(problem: P) -> Self {
        Self {
            line: None,
            problem: problem.into(),
        }
    }
}
