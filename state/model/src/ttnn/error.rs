//! Why an operation did not run.

use super::operations;
use crate::program::ProgramError;
use crate::runtime::{FailureKind, RuntimeError};
use crate::tensor::TensorError;

/// Why an operation, or the creation of a tensor, failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// There is no operation of that name.
    #[error("there is no operation `{name}`; there are: {}", known())]
    Unknown { name: String },
    /// The operation cannot be called like that.
    #[error("{operation}: {reason}")]
    Call { operation: String, reason: String },
    /// There is no buffer for a tensor like that.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The runtime refused, with its own text.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

impl OperationError {
    pub(super) fn call(operation: &str, reason: impl Into<String>) -> Self {
        Self::Call {
            operation: operation.to_owned(),
            reason: reason.into(),
        }
    }

    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Runtime(error) => error.kind(),
            Self::Unknown { .. } | Self::Call { .. } | Self::Tensor(_) => FailureKind::Refused,
        }
    }
}

impl From<ProgramError> for OperationError {
    fn from(error: ProgramError) -> Self {
        Self::Runtime(error.into())
    }
}

fn known() -> String {
    let mut names: Vec<&str> = operations::names().collect();
    names.sort_unstable();
    names.join(", ")
}
