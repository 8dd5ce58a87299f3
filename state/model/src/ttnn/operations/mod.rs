//! The operations: what each takes, returns, and builds; one module per family.
//!
//! Kernels carry the file names of ttnn's own. Storage sizes are ttnn's for the binary operations
//! and matmul (held against recorded runs), and by the counts of its program factories for softmax
//! and the norms; elsewhere they are of the right kind and order. A module describes programs
//! only; allocation, addresses and caching are its caller's.

mod attention;
mod collective;
mod convolution;
mod data_movement;
mod element_wise;
mod embedding;
mod matmul;
mod normalisation;
mod pooling;
mod reduction;
mod window;

pub(super) use window::Window;

use super::Call;
use super::cache::OutputPlan;
use super::draft::{Draft, Family, Operand};
use super::error::OperationError;
use super::job::Job;
use crate::tensor::TensorSpec;
use std::ops::RangeInclusive;
use window::WINDOW;

static FAMILIES: [&[Operation]; 10] = [
    element_wise::OPERATIONS,
    matmul::OPERATIONS,
    normalisation::OPERATIONS,
    data_movement::OPERATIONS,
    attention::OPERATIONS,
    embedding::OPERATIONS,
    convolution::OPERATIONS,
    pooling::OPERATIONS,
    reduction::OPERATIONS,
    collective::OPERATIONS,
];

#[derive(Debug)]
pub(super) struct Operation {
    pub(super) name: &'static str,
    /// As ttnn calls the device operation behind it.
    pub(super) program: &'static str,
    /// How many inputs it takes, at least one.
    inputs: RangeInclusive<usize>,
    /// Attributes that it looks at.
    attributes: &'static [&'static str],
    output: Output,
    pub(super) spread: Spread,
    pub(super) body: Body,
    /// Whether it slides a window over images, for which shards need rows of their neighbours.
    pub(super) window: bool,
}

#[derive(Clone, Copy, Debug)]
enum Output {
    /// Nothing: it changes its first input.
    InPlace,
    Stated,
    /// What follows from the inputs, unless the caller states another.
    Inferred(fn(&Job<'_>) -> TensorSpec),
}

/// How programs are spread over a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// The same program on every device.
    Mesh,
    /// A program of its own for each device.
    EachDevice,
}

/// How a program is described.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body {
    /// Pages stream through every core.
    Stream(Recipe),
    Drawn(fn(&Job<'_>) -> Draft),
}

/// An operation that reads pages, does something to each, and writes them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recipe {
    family: Family,
    reader: &'static str,
    /// Without one, the writer writes what the reader has read.
    compute: Option<&'static str>,
    writer: &'static str,
    /// How many pages are under way on each side.
    pages: u64,
}

/// Where ttnn's kernels expect their output by custom.
const OUTPUT_INDEX: u8 = 16;

impl Operation {
    const fn new(
        name: &'static str,
        program: &'static str,
        inputs: RangeInclusive<usize>,
        output: Output,
        body: Body,
    ) -> Self {
        Self {
            name,
            program,
            inputs,
            attributes: &[],
            output,
            spread: Spread::Mesh,
            body,
            window: false,
        }
    }

    /// The same with these attributes.
    const fn with(mut self, attributes: &'static [&'static str]) -> Self {
        self.attributes = attributes;
        self
    }

    /// The same with a window, and the attributes that describe it.
    const fn sliding(mut self) -> Self {
        self.attributes = WINDOW;
        self.window = true;
        self
    }

    /// The same with a program for each device.
    const fn on_each_device(mut self) -> Self {
        self.spread = Spread::EachDevice;
        self
    }

    /// Refuses a call with the wrong number of inputs or an attribute that nobody looks at.
    pub(super) fn check(&self, call: &Call<'_>) -> Result<(), OperationError> {
        let count = call.inputs.len();
        if !self.inputs.contains(&count) {
            let (least, most) = (self.inputs.start(), self.inputs.end());
            let reason = format!("takes {least} to {most} inputs, not {count}");
            return Err(OperationError::call(self.name, reason));
        }
        let known = |name: &&str| self.attributes.contains(name);
        let mut names = call.attributes.iter().map(|(name, _value)| *name);
        if let Some(unknown) = names.find(|name| !known(name)) {
            let known = self.attributes.join(", ");
            let reason = format!("has no attribute `{unknown}`; it has: {known}");
            return Err(OperationError::call(self.name, reason));
        }
        Ok(())
    }

    /// The tensor that a call returns.
    pub(super) fn plan(
        &self,
        job: &Job<'_>,
        stated: Option<&TensorSpec>,
    ) -> Result<Option<OutputPlan>, OperationError> {
        let spec = match (self.output, stated) {
            (Output::InPlace, None) => return Ok(None),
            (Output::InPlace, Some(_spec)) => {
                let reason = "works in place and returns nothing";
                return Err(OperationError::call(self.name, reason));
            }
            (Output::Stated, None) => {
                let reason = "needs its output to be stated";
                return Err(OperationError::call(self.name, reason));
            }
            (Output::Stated | Output::Inferred(_), Some(spec)) => spec.clone(),
            (Output::Inferred(infer), None) => infer(job),
        };
        let buffer = spec.buffer()?;
        Ok(Some(OutputPlan { spec, buffer }))
    }
}

impl Body {
    pub(super) fn draft(self, job: &Job<'_>) -> Draft {
        match self {
            Self::Drawn(draw) => draw(job),
            Self::Stream(recipe) => recipe.draft(job),
        }
    }
}

impl Recipe {
    fn draft(self, job: &Job<'_>) -> Draft {
        let (input, output) = (job.first(), job.result());
        let cores = job.cores(output.tiles().max(input.tiles()));
        let mut draft = Draft::new(self.family, cores);
        let pages = job.fit(self.pages, input.page.max(output.page), 2);
        draft.operand(0, Operand::Input(0), input, pages);
        if self.compute.is_some() || output.shards.is_some() {
            let operand = job
                .output
                .as_ref()
                .map_or(Operand::Input(0), |_output| Operand::Output);
            draft.operand(OUTPUT_INDEX, operand, output, pages);
        }
        draft.reader(self.reader, &[input.page], 4);
        draft.writer(self.writer, &[output.page], 3);
        if let Some(compute) = self.compute {
            draft.compute(compute, &[1, job.code()], 1);
        }
        draft
    }
}

/// Names that people use, and ttnn's own.
const SHORT_NAMES: [(&str, &str); 10] = [
    ("concat_heads", "nlp_concat_heads"),
    ("create_heads", "nlp_create_qkv_heads"),
    ("fill_cache", "paged_fill_cache"),
    ("max_pool", "max_pool2d"),
    ("mul", "multiply"),
    ("rotary_embedding", "rotary_embedding_llama"),
    ("sdpa", "scaled_dot_product_attention"),
    ("sdpa_decode", "scaled_dot_product_attention_decode"),
    ("sub", "subtract"),
    ("update_cache", "paged_update_cache"),
];

/// A name without the module that it may be written with.
fn bare(name: &str) -> &str {
    let rest = name.strip_prefix("ttnn");
    let rest = rest.and_then(|rest| rest.strip_prefix("::").or_else(|| rest.strip_prefix('.')));
    rest.unwrap_or(name)
}

/// The operation of that name: `add`, `ttnn::add`, or a short name for it.
pub(super) fn find(name: &str) -> Result<&'static Operation, OperationError> {
    let given = bare(name);
    let short = SHORT_NAMES.iter().find(|(short, _full)| *short == given);
    let full = short.map_or(given, |(_short, full)| full);
    let mut all = FAMILIES.iter().copied().flatten();
    let found = all.find(|operation| operation.name == full);
    found.ok_or_else(|| OperationError::Unknown {
        name: name.to_owned(),
    })
}

/// The names of all operations, family by family.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FAMILIES
        .iter()
        .copied()
        .flatten()
        .map(|operation| operation.name)
}

/// A tensor like the first input.
fn like_first(job: &Job<'_>) -> TensorSpec {
    job.first().spec.clone()
}

/// A tensor of another shape than the first input: not sharded, as shards would not fit it.
fn shaped(job: &Job<'_>, shape: Vec<u64>) -> TensorSpec {
    TensorSpec {
        shape,
        sharding: None,
        ..like_first(job)
    }
}
