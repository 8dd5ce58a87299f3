//! Why the recorded past does not answer.

use std::path::PathBuf;
use ttmem_record::{OpenError, OverBudget, ReadError};

#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordedError {
    #[error("nothing is recorded yet")]
    Nothing,
    /// By its name alone: readers elsewhere need not know the folder.
    #[error("cannot open {}", path.file_name().unwrap_or(path.as_os_str()).display())]
    Open { path: PathBuf, source: OpenError },
    #[error("this instant cannot be reached")]
    Read(#[source] ReadError),
    #[error("others are looking over the recording; ask again")]
    Busy,
    /// Nobody is told.
    #[error("the reader is gone")]
    Gone,
}

impl From<ReadError> for RecordedError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Gone => Self::Gone,
            error => Self::Read(error),
        }
    }
}

impl RecordedError {
    /// Whether it needs more memory than there is: others may give some back.
    pub(super) fn is_over_memory(&self) -> bool {
        let over = match self {
            Self::Open {
                source: OpenError::OverBudget(over),
                ..
            }
            | Self::Read(ReadError::OverBudget(over)) => over,
            _other => return false,
        };
        matches!(over, OverBudget::Memory { .. })
    }

    /// All of the reasons in one line.
    pub(crate) fn in_words(&self) -> String {
        self.behind(self.to_string())
    }

    /// The same with whole paths, for who named them.
    pub(crate) fn with_path(&self) -> String {
        match self {
            Self::Open { path, .. } => self.behind(format!("cannot open {}", path.display())),
            _no_file => self.in_words(),
        }
    }

    /// All reasons behind some words.
    fn behind(&self, mut words: String) -> String {
        let mut next = std::error::Error::source(self);
        while let Some(source) = next {
            let reason = source.to_string();
            // Some say what their reason is.
            if !words.contains(&reason) {
                words = format!("{words}: {reason}");
            }
            next = source.source();
        }
        words
    }
}
