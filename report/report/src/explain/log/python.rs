//! The user's line of Python: tracebacks as Python and pytest print them, behind any log prefix.

/// Lines between the last frame of a traceback and the message in its exception: the source line,
/// its markers, the exception with the runtime's own place, and `info:`.
const EXCEPTION_LINES: u64 = 8;

/// Lines between a message and the place that pytest prints below: the runtime's own backtrace.
const BACKTRACE_LINES: u64 = 256;

/// A path or name that is longer is none.
const MAX_NAME_BYTES: usize = 1024;

/// Where the user's code called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// As `file:line function`.
    pub(super) python: Option<String>,
    /// The ttnn operation in that line.
    pub(super) operation: Option<String>,
}

#[derive(Debug, Clone)]
struct Frame {
    python: String,
    operation: Option<String>,
    is_users: bool,
}

/// The innermost frame of the traceback that is being read, the user's before any other.
#[derive(Debug, Default)]
pub(super) struct Traceback {
    frame: Option<Frame>,
    /// The line of the last frame, the user's or not.
    last_line: u64,
    /// Whether the last frame is the one that is kept: the next line is its source.
    is_kept: bool,
    /// The innermost of the user's frames that pytest printed for the current test.
    pytest: Option<Frame>,
    /// The line of the last frame that pytest printed, the user's or not.
    pytest_line: u64,
    /// Whether that is the one that is kept, and its source stands in the line below.
    pytest_source_follows: bool,
    /// The source line that pytest marked last.
    marked: Option<String>,
}

impl Traceback {
    /// Reads on; the place of a failed test, if this line has it.
    pub(super) fn line(&mut self, number: u64, text: &str) -> Option<Place> {
        if text.contains("Traceback (most recent call last)") {
            self.frame = None;
        } else if let Some(frame) = python_frame(text) {
            self.is_kept = frame.is_users || self.frame.as_ref().is_none_or(|kept| !kept.is_users);
            if self.is_kept {
                self.frame = Some(frame);
            }
            self.last_line = number;
        } else if is_anothers_end(text) {
            self.frame = None;
        } else {
            self.source(number, text);
            return self.pytest_line(number, text);
        }
        None
    }

    /// The operation of a frame stands in the line below it.
    fn source(&mut self, number: u64, text: &str) {
        if self.is_kept
            && number == self.last_line + 1
            && let Some(frame) = &mut self.frame
        {
            frame.operation = operation(text);
        }
    }

    /// pytest prints a frame's place below its source, in which it marks the line with `>`, or, in
    /// its short form, above its one source line.
    fn pytest_line(&mut self, number: u64, text: &str) -> Option<Place> {
        if begins_test(text) {
            (self.pytest, self.marked) = (None, None);
        } else if let Some(source) = text.strip_prefix('>') {
            self.marked = operation(source);
        }
        let Some((mut frame, raised)) = pytest_frame(text) else {
            if self.pytest_source_follows
                && number == self.pytest_line + 1
                && let Some(frame) = &mut self.pytest
            {
                frame.operation = operation(text);
            }
            return None;
        };
        frame.operation = self.marked.take();
        let is_kept = frame.is_users || self.pytest.is_none();
        self.pytest_line = number;
        self.pytest_source_follows = is_kept && !raised && frame.operation.is_none();
        if is_kept {
            self.pytest = Some(frame);
        }
        raised.then(|| place(self.pytest.take())).flatten()
    }

    /// Where a message of pytest on this line was raised, as far as the frames above it say.
    pub(super) fn pytest_place(&self, number: u64) -> Option<Place> {
        let near = is_below(self.pytest_line, number);
        near.then(|| place(self.pytest.clone())).flatten()
    }

    /// Where a message on this line was raised, if a traceback has just led to it.
    pub(super) fn place(&self, number: u64) -> Option<Place> {
        let near = self.last_line > 0 && number.saturating_sub(self.last_line) <= EXCEPTION_LINES;
        near.then(|| place(self.frame.clone())).flatten()
    }
}

fn place(frame: Option<Frame>) -> Option<Place> {
    frame.map(|frame| Place {
        python: Some(frame.python),
        operation: frame.operation,
    })
}

/// The exception at the end of a traceback that no message of the runtime ends: those are of one type.
fn is_anothers_end(text: &str) -> bool {
    let Some((before, _message)) = text.split_once("Error: ") else {
        return false;
    };
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let name = before.trim_end_matches(is_part).len();
    &before[name..] != "Runtime" && !text.starts_with("E ")
}

/// The heading of a failed test.
pub(super) fn begins_test(text: &str) -> bool {
    text.starts_with("____")
}

/// Whether the place of a failed test on one line can be that of a message on another.
pub(super) fn is_below(message: u64, number: u64) -> bool {
    number > message && number - message <= BACKTRACE_LINES
}

/// `File "model.py", line 57, in forward`
fn python_frame(text: &str) -> Option<Frame> {
    let (_prefix, rest) = text.split_once("File \"")?;
    let (file, rest) = rest.split_once("\", line ")?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (line, rest) = rest.split_at(digits);
    let function = rest.strip_prefix(", in ").unwrap_or_default().trim();
    frame(file, line, function)
}

/// `tests/test_model.py:57: in forward` or, where it was raised, `tests/test_model.py:57: RuntimeError`
fn pytest_frame(text: &str) -> Option<(Frame, bool)> {
    let (file, rest) = text.split_once(".py:")?;
    let (line, rest) = rest.split_once(':')?;
    if file.contains(char::is_whitespace) || line.is_empty() {
        return None;
    }
    let rest = rest.trim();
    let function = rest.strip_prefix("in ").unwrap_or_default();
    let raised = rest.ends_with("Error") || rest.ends_with("Exception");
    let known = rest.is_empty() || !function.is_empty() || raised;
    let frame = frame(&format!("{file}.py"), line, function)?;
    known.then_some((frame, raised))
}

fn frame(file: &str, line: &str, function: &str) -> Option<Frame> {
    let line: u32 = line.parse().ok()?;
    if file.len() > MAX_NAME_BYTES || function.len() > MAX_NAME_BYTES {
        return None;
    }
    let python = format!("{file}:{line} {function}").replace(char::is_control, "\u{fffd}");
    Some(Frame {
        python: python.trim_end().to_owned(),
        operation: None,
        is_users: crate::is_users_code(file),
    })
}

/// `ttnn.linear` of `out = ttnn.linear(x, …`.
fn operation(source: &str) -> Option<String> {
    let at = source.find("ttnn.")?;
    let name = &source[at..];
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let name = &name[..name.find(|c| !is_part(c)).unwrap_or(name.len())];
    let called = source[at + name.len()..].starts_with('(');
    (called && name.len() <= MAX_NAME_BYTES).then(|| name.to_owned())
}
