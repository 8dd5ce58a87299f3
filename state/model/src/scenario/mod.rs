//! Scenarios: files that say what a program does with memory, and the player that does it.
//!
//! A scenario is a TOML file; the built-in ones are files of the same kind, and the language is
//! described in `docs/scenarios.md`. [`play`](play()) runs one on the model of the runtime, and
//! reports what it does to whatever [hooks](crate::hooks) it is given.

mod check;
pub mod error;
pub mod expression;
mod play;
mod read;
mod replica;
pub mod script;
pub mod value;

pub use error::ScenarioError;
pub use play::{
    FullSpeed, MAX_STEPS, Outcome, Pace, PlantedFailure, Play, PlayError, StepDone, play,
    play_again,
};
pub use replica::StepError;
pub use script::Scenario;

/// A scenario that comes with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    pub name: &'static str,
    /// The file: what is played names its lines.
    pub text: &'static str,
}

macro_rules! built_in {
    ($($name:literal,)*) => {
        &[$(BuiltIn {
            name: $name,
            text: include_str!(concat!("../../scenarios/", $name, ".toml")),
        },)*]
    };
}

/// In the order in which a newcomer would look at them.
const BUILT_IN: &[BuiltIn] = built_in![
    "transformer-8b",
    "transformer-8b-dp4",
    "transformer-dp4",
    "matmul-slow",
    "convnet-sharded",
    "diffusion-step",
    "padding",
    "dram-full",
    "fragmentation",
    "l1-full",
    "cb-clash",
    "leak",
    "trace-too-small",
    "trace-alive",
    "l1-small-full",
];

impl BuiltIn {
    /// The text of its file: a model for one's own.
    #[must_use]
    pub const fn text(&self) -> &'static str {
        self.text
    }

    /// The scenario itself.
    ///
    /// # Errors
    /// Never for a file that comes with the program: a test reads them all.
    pub fn scenario(&self) -> Result<Scenario, ScenarioError> {
        Scenario::from_text(self.name, self.text)
    }
}

impl Scenario {
    /// The scenarios that come with the program.
    #[must_use]
    pub const fn built_in() -> &'static [BuiltIn] {
        BUILT_IN
    }

    /// The built-in scenario of that name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static BuiltIn> {
        BUILT_IN.iter().find(|built_in| built_in.name == name)
    }

    /// Reads a scenario from the text of a file called `name`, which may use built-in blocks.
    ///
    /// # Errors
    /// If the text is no scenario; the error names the file, the line and what was expected.
    pub fn from_text(name: &str, text: &str) -> Result<Self, ScenarioError> {
        Self::parse_with(name, text, &|other| Self::find(other).map(BuiltIn::text))
    }
}
