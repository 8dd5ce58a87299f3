//! The language of the recorded runs: one step a line, what followed indented below it.
//!
//! ```text
//! open 1x2 chips 0,1 l1_small 32768 trace 8388608
//!   banks DRAM 12 x 1071988672                    banks of each chip, bytes of each
//! create a = zeros 1x1x64x64 bfloat16 tile DRAM   operation, then the tensor: shape, data type,
//!                                                 order, class, and for shards "height 4x4"
//! run c = add a b -> 1x1x64x64 bfloat16 tile L1   operation, inputs, output tensor
//!   placed DRAM interleaved 64 size 8192 page 2048 per_bank 2048
//!   program                                       a program was run, on every chip
//!   cb 105824 4096 0,0-7,7                        of which this became known on every chip
//!   refused Out of Memory: …                      the first 200 characters of what it said
//! free a c
//! clear_program_cache
//!   cbs_freed 2                                   programs whose CBs were given back on every chip
//!   view DRAM 176128/1071812544 …                 allocated / largest free block, for each class
//! close live b                                    what was never freed
//! ```
//!
//! Empty lines and lines that begin with `#` say nothing.

use ttmem_event::catalogue::Grid;
use ttmem_event::{Class, CoreRange, Layout};
use ttmem_model::tensor::{DataType, Shard, Sharding, TensorSpec, TileLayout};

#[derive(Debug)]
pub(super) struct Script {
    /// Rows and columns of the mesh.
    pub(super) mesh: (u16, u16),
    /// Logical ids of its chips, row by row.
    pub(super) chips: Vec<u32>,
    pub(super) l1_small_size: u64,
    pub(super) trace_region_size: u64,
    pub(super) banks: Vec<Banks>,
    pub(super) steps: Vec<Step>,
    /// The tensors that were never freed.
    pub(super) live_at_close: Vec<String>,
}

/// The banks of one class.
#[derive(Debug)]
pub(super) struct Banks {
    pub(super) class: Class,
    pub(super) banks: u32,
    pub(super) bytes_per_bank: u64,
}

/// Something the run did, and what followed.
#[derive(Debug)]
pub(super) struct Step {
    /// For messages.
    pub(super) line: usize,
    pub(super) action: Action,
    pub(super) placed: Option<Placed>,
    /// The beginning of the text of the refusal.
    pub(super) refused: Option<String>,
    pub(super) program: bool,
    /// The circular buffers that became known, in this order, on every chip.
    pub(super) cbs: Vec<Cb>,
    /// Programs whose circular buffers were given back, on every chip.
    pub(super) cbs_freed: usize,
    pub(super) views: Vec<View>,
}

#[derive(Debug)]
pub(super) enum Action {
    Create {
        name: String,
        operation: String,
        tensor: TensorSpec,
    },
    Run {
        name: String,
        operation: String,
        inputs: Vec<String>,
        output: TensorSpec,
    },
    Free(Vec<String>),
    ClearProgramCache,
}

/// Where a buffer was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) class: Class,
    pub(super) layout: Layout,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) page: u64,
    pub(super) per_bank: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cb {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) cores: CoreRange,
}

/// What the allocator reported of one class, per bank.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) class: Class,
    pub(super) allocated: u64,
    pub(super) largest_free: u64,
}

impl Script {
    /// Reads a run; `Err` names the line that is not understood.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut script = Self {
            mesh: (0, 0),
            chips: Vec::new(),
            l1_small_size: 0,
            trace_region_size: 0,
            banks: Vec::new(),
            steps: Vec::new(),
            live_at_close: Vec::new(),
        };
        for (index, text) in text.lines().enumerate() {
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let line = index + 1;
            let fact = text.strip_prefix("  ");
            match fact {
                Some(fact) => script.fact(fact),
                None => script.step(line, text),
            }
            .ok_or_else(|| format!("line {line}: {text}"))?;
        }
        Ok(script)
    }

    fn step(&mut self, line: usize, text: &str) -> Option<()> {
        let words: Vec<_> = text.split(' ').collect();
        let action = match words.as_slice() {
            [
                "open",
                mesh,
                "chips",
                chips,
                "l1_small",
                l1_small,
                "trace",
                trace,
            ] => {
                self.mesh = sides(mesh)?;
                self.chips = chips.split(',').map(number).collect::<Option<_>>()?;
                self.l1_small_size = number(l1_small)?;
                self.trace_region_size = number(trace)?;
                return Some(());
            }
            ["close", "live", live @ ..] => {
                self.live_at_close = owned(live);
                return Some(());
            }
            ["create", name, "=", operation, spec @ ..] => Action::Create {
                name: (*name).to_owned(),
                operation: (*operation).to_owned(),
                tensor: tensor(spec)?,
            },
            ["run", name, "=", operation, rest @ ..] => {
                let arrow = rest.iter().position(|word| *word == "->")?;
                Action::Run {
                    name: (*name).to_owned(),
                    operation: (*operation).to_owned(),
                    inputs: owned(&rest[..arrow]),
                    output: tensor(&rest[arrow + 1..])?,
                }
            }
            ["free", names @ ..] => Action::Free(owned(names)),
            ["clear_program_cache"] => Action::ClearProgramCache,
            _ => return None,
        };
        self.steps.push(Step {
            line,
            action,
            placed: None,
            refused: None,
            program: false,
            cbs: Vec::new(),
            cbs_freed: 0,
            views: Vec::new(),
        });
        Some(())
    }

    fn fact(&mut self, text: &str) -> Option<()> {
        let words: Vec<_> = text.split(' ').collect();
        if let ["banks", class_name, banks, "x", bytes] = words.as_slice() {
            self.banks.push(Banks {
                class: class(class_name)?,
                banks: number(banks)?,
                bytes_per_bank: number(bytes)?,
            });
            return Some(());
        }
        let step = self.steps.last_mut()?;
        match words.as_slice() {
            [
                "placed",
                class_name,
                layout,
                address,
                "size",
                size,
                "page",
                page,
                "per_bank",
                per_bank,
            ] => {
                step.placed = Some(Placed {
                    class: class(class_name)?,
                    layout: *Layout::ALL.iter().find(|l| l.name() == *layout)?,
                    address: number(address)?,
                    size: number(size)?,
                    page: number(page)?,
                    per_bank: number(per_bank)?,
                });
            }
            ["refused", ..] => step.refused = text.strip_prefix("refused ").map(str::to_owned),
            ["program"] => step.program = true,
            ["cb", address, size, cores] => step.cbs.push(Cb {
                address: number(address)?,
                size: number(size)?,
                cores: core_range(cores)?,
            }),
            ["cbs_freed", count] => step.cbs_freed = number(count)?,
            ["view", pairs @ ..] => {
                let views = pairs.chunks(2).map(view);
                step.views = views.collect::<Option<_>>()?;
            }
            _ => return None,
        }
        Some(())
    }
}

fn view(words: &[&str]) -> Option<View> {
    let [class_name, figures] = words else {
        return None;
    };
    let (allocated, largest_free) = figures.split_once('/')?;
    Some(View {
        class: class(class_name)?,
        allocated: number(allocated)?,
        largest_free: number(largest_free)?,
    })
}

fn tensor(words: &[&str]) -> Option<TensorSpec> {
    let [shape, data_type, layout, class_name, shards @ ..] = words else {
        return None;
    };
    let sharding = match shards {
        [] => None,
        [shard, grid] => {
            let (columns, rows) = sides(grid)?;
            Some(Sharding {
                shard: Shard::from_name(shard)?,
                grid: Grid::new(columns, rows),
            })
        }
        _ => return None,
    };
    Some(TensorSpec {
        shape: shape.split('x').map(number).collect::<Option<_>>()?,
        data_type: DataType::from_name(data_type)?,
        layout: TileLayout::from_name(layout)?,
        class: class(class_name)?,
        sharding,
    })
}

fn core_range(word: &str) -> Option<CoreRange> {
    let (first, last) = word.split_once('-')?;
    let (x_first, y_first) = first.split_once(',')?;
    let (x_last, y_last) = last.split_once(',')?;
    Some(CoreRange {
        x_first: number(x_first)?,
        y_first: number(y_first)?,
        x_last: number(x_last)?,
        y_last: number(y_last)?,
    })
}

fn class(word: &str) -> Option<Class> {
    Class::ALL.iter().copied().find(|c| c.name() == word)
}

fn sides(word: &str) -> Option<(u16, u16)> {
    let (first, second) = word.split_once('x')?;
    Some((number(first)?, number(second)?))
}

fn number<N: std::str::FromStr>(word: &str) -> Option<N> {
    word.parse().ok()
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
