//! Reads steps: one verb, and the fields that belong to it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess};
use toml::Spanned;

use super::super::check;
use super::super::error::Problem;
use super::super::expression::{NameTemplate, Number};
use super::super::script::{Action, Memory, OpStep, OutputStep, TensorStep};
use super::fields::{Forms, Word, deserialize_by_form};
use super::{STEPS, limit, unknown};
use crate::runtime::FailureKind;
use crate::tensor::{DataType, TileLayout};

const DIMENSIONS: usize = 8;

/// Longest name of a creation.
const LABEL_CHARS: usize = 64;

/// Tensors that one operation reads.
const INPUTS: usize = 64;

/// Numbers that one operation takes.
const ATTRIBUTES: usize = 16;

/// Tensors that one step gives back.
const FREED: usize = 1_024;

/// Verbs and the fields that go with them; `trace` stands before `run`, which it takes.
const VERBS: [(&str, &[&str]); 12] = [
    ("tensor", &["shape", "type", "layout", "memory", "by"]),
    (
        "op",
        &["inputs", "out", "shape", "type", "layout", "memory", "with"],
    ),
    ("free", &[]),
    ("trace", &["run"]),
    ("run", &["for", "times"]),
    ("replay", &["times"]),
    ("release", &[]),
    ("attempt", &["fails"]),
    ("pick", &[]),
    ("mark", &["number"]),
    ("clear_program_cache", &[]),
    ("pause_ms", &[]),
];

/// A step with all its fields optional, and which of them are there.
macro_rules! raw_step {
    ($($field:ident: $type:ty,)*) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            $($field: Option<$type>,)*
        }

        impl Fields {
            /// The fields that are written, by their names in a file.
            fn written(&self) -> impl Iterator<Item = &'static str> {
                let fields = [$((stringify!($field), self.$field.is_some()),)*];
                let written = fields.into_iter().filter(|(_, is_there)| *is_there);
                written.map(|(name, _)| name.strip_prefix("r#").unwrap_or(name))
            }
        }
    };
}

raw_step! {
    tensor: NameTemplate,
    op: String,
    free: Vec<NameTemplate>,
    trace: String,
    run: String,
    replay: String,
    release: String,
    attempt: String,
    pick: String,
    mark: NameTemplate,
    clear_program_cache: bool,
    pause_ms: Number,
    shape: Vec<Number>,
    r#type: Word<DataType>,
    layout: Word<TileLayout>,
    memory: Memory,
    by: String,
    inputs: Vec<NameTemplate>,
    out: NameTemplate,
    with: BTreeMap<String, Number>,
    r#for: String,
    times: Number,
    number: Number,
    fails: String,
}

/// One step as TOML has it.
pub(super) struct RawStep(Fields);

impl Forms for RawStep {
    const EXPECTED: &'static str = "a step, such as { free = [\"x\"] }";

    fn from_table<'de, A: MapAccess<'de>>(table: A) -> Result<Self, A::Error> {
        Fields::deserialize(MapAccessDeserializer::new(table)).map(Self)
    }
}

/// The steps of a block as TOML has them.
pub(super) struct RawSteps(pub(super) Vec<Spanned<RawStep>>);

impl Forms for RawSteps {
    const EXPECTED: &'static str = "a list of steps";

    fn from_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut steps = Vec::new();
        while let Some(step) = list.next_element()? {
            // Not one more is kept than a whole file may have.
            if steps.len() == STEPS {
                return Err(A::Error::custom(format!("more than {STEPS} steps")));
            }
            steps.push(step);
        }
        Ok(Self(steps))
    }
}

deserialize_by_form!(RawStep, RawSteps);

impl RawStep {
    pub(super) fn action(self) -> Result<Action, Problem> {
        self.0.action()
    }
}

impl Fields {
    /// The one verb of the step; its other fields belong to it.
    fn verb(&self) -> Result<&'static str, Problem> {
        let is_written = |name: &str| self.written().any(|written| written == name);
        let verb = VERBS.iter().find(|(verb, _)| is_written(verb));
        let Some(&(verb, allowed)) = verb else {
            return Err(Problem::NoVerb {
                expected: VERBS.map(|(verb, _)| verb).join(", "),
            });
        };
        let foreign = self
            .written()
            .find(|field| *field != verb && !allowed.contains(field));
        match foreign {
            None => Ok(verb),
            Some(field) => Err(Problem::ForeignField {
                verb,
                field,
                allowed,
            }),
        }
    }

    fn action(self) -> Result<Action, Problem> {
        let verb = self.verb()?;
        let missing = |field| Problem::MissingField { verb, field };
        if let Some(name) = self.tensor {
            return Ok(Action::Tensor(TensorStep {
                name,
                shape: shape(self.shape.ok_or_else(|| missing("shape"))?)?,
                data_type: self.r#type.map_or(DataType::Bfloat16, |word| word.0),
                layout: self.layout.map_or(TileLayout::Tile, |word| word.0),
                memory: self.memory.unwrap_or_default(),
                by: self.by.map(label).transpose()?,
            }));
        }
        if let Some(name) = self.op {
            return op(OpFields {
                operation: operation(name)?,
                inputs: self.inputs,
                out: self.out,
                shape: self.shape,
                data_type: self.r#type.map(|word| word.0),
                layout: self.layout.map(|word| word.0),
                memory: self.memory,
                with: self.with,
            });
        }
        if let Some(names) = self.free {
            limit("tensors in one step", names.len(), FREED)?;
            return Ok(Action::Free { names });
        }
        if let Some(name) = self.trace {
            check::name("trace", &name)?;
            return Ok(Action::Trace {
                name,
                block: self.run.ok_or_else(|| missing("run"))?,
            });
        }
        let times = |times: Option<Number>| times.unwrap_or(Number::from(1));
        if let Some(block) = self.run {
            if self.r#for.is_some() && self.times.is_none() {
                return Err(missing("times"));
            }
            if let Some(variable) = &self.r#for {
                check::value_name("loop", variable)?;
            }
            return Ok(Action::Run {
                block,
                variable: self.r#for,
                times: times(self.times),
            });
        }
        if let Some(trace) = self.replay {
            return Ok(Action::Replay {
                trace,
                times: times(self.times),
            });
        }
        if let Some(trace) = self.release {
            return Ok(Action::Release { trace });
        }
        if let Some(block) = self.attempt {
            let fails = self.fails.ok_or_else(|| missing("fails"))?;
            let known = FailureKind::ALL.map(FailureKind::name);
            return Ok(Action::Attempt {
                block,
                failure: FailureKind::from_name(&fails)
                    .ok_or_else(|| unknown("failure", &fails, &known))?,
            });
        }
        if let Some(value) = self.pick {
            return Ok(Action::Pick { value });
        }
        if let Some(name) = self.mark {
            return Ok(Action::Mark {
                name,
                number: self.number.unwrap_or(Number::from(0)),
            });
        }
        if let Some(millis) = self.pause_ms {
            return Ok(Action::Pause { millis });
        }
        if self.clear_program_cache == Some(false) {
            return Err(Problem::BadField {
                field: "clear_program_cache",
                reason: "true is the only value: leave the step out instead".to_owned(),
            });
        }
        Ok(Action::ClearProgramCache)
    }
}

/// The fields of an `op` step.
struct OpFields {
    operation: String,
    inputs: Option<Vec<NameTemplate>>,
    out: Option<NameTemplate>,
    shape: Option<Vec<Number>>,
    data_type: Option<DataType>,
    layout: Option<TileLayout>,
    memory: Option<Memory>,
    with: Option<BTreeMap<String, Number>>,
}

fn op(fields: OpFields) -> Result<Action, Problem> {
    let inputs = fields.inputs.unwrap_or_default();
    limit("inputs", inputs.len(), INPUTS)?;
    let with = fields.with.unwrap_or_default();
    limit("attributes", with.len(), ATTRIBUTES)?;
    for attribute in with.keys() {
        check::name("attribute", attribute)?;
    }
    let output = match fields.out {
        Some(name) => {
            if inputs.is_empty() && (fields.shape.is_none() || fields.data_type.is_none()) {
                return Err(Problem::BadField {
                    field: "out",
                    reason: "without inputs, `shape` and `type` are needed".to_owned(),
                });
            }
            Some(OutputStep {
                name,
                shape: fields.shape.map(shape).transpose()?,
                data_type: fields.data_type,
                layout: fields.layout,
                memory: fields.memory,
            })
        }
        None => {
            let described = [
                ("shape", fields.shape.is_some()),
                ("type", fields.data_type.is_some()),
                ("layout", fields.layout.is_some()),
                ("memory", fields.memory.is_some()),
            ];
            if let Some((field, _)) = described.into_iter().find(|(_, is_there)| *is_there) {
                return Err(Problem::BadField {
                    field,
                    reason: "describes the output, but `out` is missing".to_owned(),
                });
            }
            None
        }
    };
    Ok(Action::Op(OpStep {
        operation: fields.operation,
        inputs,
        output,
        attributes: with.into_iter().collect(),
    }))
}

fn shape(dimensions: Vec<Number>) -> Result<Vec<Number>, Problem> {
    limit("dimensions", dimensions.len(), DIMENSIONS)?;
    if dimensions.is_empty() {
        return Err(Problem::Empty { what: "`shape`" });
    }
    if dimensions.iter().any(|size| size.literal() == Some(0)) {
        return Err(Problem::BadField {
            field: "shape",
            reason: "a dimension of 0 leaves no elements".to_owned(),
        });
    }
    Ok(dimensions)
}

/// The name of an operation, with or without its module: `matmul`, `ttnn.matmul`, `ttnn::matmul`.
fn operation(name: String) -> Result<String, Problem> {
    for part in name.split("::").flat_map(|part| part.split('.')) {
        check::name("operation", part)?;
    }
    Ok(name)
}

/// What a person calls the creation of a tensor: a short line.
fn label(text: String) -> Result<String, Problem> {
    let is_printable = |letter: char| letter.is_ascii_graphic() || letter == ' ';
    if text.is_empty() || text.len() > LABEL_CHARS || !text.chars().all(is_printable) {
        return Err(Problem::BadField {
            field: "by",
            reason: format!("1 to {LABEL_CHARS} printable ASCII characters"),
        });
    }
    Ok(text)
}
