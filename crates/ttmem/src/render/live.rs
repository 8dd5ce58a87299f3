//! One frame of a story on the screen: the devices in as many lines as there is room for.
//!
//! Two lines for each device where they fit, else one. A frame is never higher than the terminal:
//! a line too many would make it scroll.

use ttmem_api::{ClassUsage, CoreType, Device, RingUsage, Snapshot};
use ttmem_event::What;

use super::bars::{Share, percent};
use super::cells::{Paint, clip, left, right, sentence};
use super::devices::{overview, painted_bar};
use super::layout_width;
use ttmem_tui::format::{SIZE_WIDTH, bytes, count, counted, duration};

/// Columns of the device's number and the space behind it.
const NUMBER_WIDTH: usize = 5;

/// The columns of a device's first line beside its two bars.
const FIRST_WITHOUT_BARS: usize = 43;

/// The columns of a device's second line beside its three bars.
const SECOND_WITHOUT_BARS: usize = 53;

/// Lines that a failure may take: with one more, a T3000 would not fit 24 rows.
const FAILURE_LINES: usize = 3;

/// What stands around the account.
#[derive(Debug)]
pub(crate) struct LivePage {
    /// What is played, and how.
    pub(crate) title: String,
    /// What it shows.
    pub(crate) about: String,
    /// The step that was done last.
    pub(crate) doing: String,
    /// Steps done.
    pub(crate) steps: u64,
    /// Since it began.
    pub(crate) elapsed_seconds: u64,
    /// What was refused last.
    pub(crate) failure: Option<LiveFailure>,
    /// What the user can do.
    pub(crate) hint: String,
}

/// Something that was refused.
#[derive(Clone, Debug)]
pub(crate) struct LiveFailure {
    /// Its name.
    pub(crate) kind: &'static str,
    /// What it means.
    pub(crate) meaning: &'static str,
    /// How far it was from going well.
    pub(crate) figures: String,
}

/// What a frame is drawn for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveSize {
    /// Columns.
    pub(crate) width: usize,
    /// Rows.
    pub(crate) height: usize,
    /// Whether colours are wanted.
    pub(crate) color: bool,
}

/// A frame: at most as many lines as the terminal has rows, without line ends.
pub(crate) fn live(page: &LivePage, snapshot: &Snapshot, size: LiveSize) -> Vec<String> {
    let frame = Frame {
        page,
        snapshot,
        width: layout_width(size.width),
        paint: Paint { color: size.color },
    };
    let (header, footer) = (frame.header(), frame.footer());
    let room = size.height.saturating_sub(header.len() + footer.len());
    let mut devices = frame.devices();
    if devices.len() > room {
        // The footer tells what went wrong: rather a device less than that.
        let short = overview(snapshot, frame.width, frame.paint);
        let short = short.lines().filter(|line| !line.is_empty());
        devices = short.take(room).map(str::to_owned).collect();
    }
    let mut lines = header;
    let spaced = devices.len() + 2 <= room;
    let blank = || spaced.then(String::new);
    lines.extend(blank());
    lines.extend(devices);
    lines.extend(blank());
    lines.extend(footer);
    lines.truncate(size.height);
    lines
}

/// The figures of an event that tells of a refusal.
pub(crate) fn refused(what: &What) -> String {
    match *what {
        What::AllocationFailed {
            class,
            banks,
            per_bank_bytes,
            free_bytes,
            largest_free_bytes,
            ..
        } => format!(
            "{} in each of {banks} banks of {} where {} are free and {} in one piece",
            bytes(per_bank_bytes),
            class.name(),
            bytes(free_bytes),
            bytes(largest_free_bytes)
        ),
        What::Clashed {
            region_end, limit, ..
        } => format!(
            "circular buffers up to address {region_end} where {limit} is taken, {} too far",
            bytes(region_end.saturating_sub(limit))
        ),
        _other => what.name().to_owned(),
    }
}

struct Frame<'a> {
    page: &'a LivePage,
    snapshot: &'a Snapshot,
    width: usize,
    paint: Paint,
}

impl Frame<'_> {
    fn header(&self) -> Vec<String> {
        let server = &self.snapshot.server;
        let anomalies: u64 = self.snapshot.anomalies.seen().map(|(_, times)| times).sum();
        let facts = format!(
            "{}, {}",
            counted(server.events_applied, "event"),
            if anomalies == 0 {
                "no anomaly".to_owned()
            } else {
                format!("{} anomalies", count(anomalies))
            },
        );
        let step = format!("step {}  {}", count(self.page.steps), self.page.doing);
        let title = format!("ttmem demo: {}", self.page.title);
        let second = self.spread(&step, &facts);
        vec![
            self.paint
                .heading(&self.spread(&title, &duration(self.page.elapsed_seconds))),
            if anomalies == 0 {
                second
            } else {
                self.paint.warning(&second)
            },
        ]
    }

    /// Some text, and some more at the right edge.
    fn spread(&self, text: &str, at_the_right: &str) -> String {
        let room = self.width.saturating_sub(at_the_right.chars().count() + 1);
        format!("{} {at_the_right}", left(text, room))
    }

    fn footer(&self) -> Vec<String> {
        let mut lines = Vec::new();
        // The latest one: the report at the end has them all.
        if let Some(failure) = &self.page.failure {
            let text = format!("{}; {}", failure.figures, failure.meaning);
            let said = sentence(&format!("! {}: ", failure.kind), &text, self.width);
            let said = said
                .lines()
                .take(FAILURE_LINES)
                .map(|line| self.paint.warning(line));
            lines.extend(said);
        } else {
            lines.push(clip(&self.page.about, self.width));
        }
        lines.push(self.paint.detail(&clip(&self.page.hint, self.width)));
        lines
    }

    fn devices(&self) -> Vec<String> {
        let wide = (self.width - FIRST_WITHOUT_BARS) / 2;
        let small = (self.width - SECOND_WITHOUT_BARS) / 3;
        let number = " ".repeat(NUMBER_WIDTH);
        let heads = [
            format!(
                "{}{}  {}",
                left("DEV", NUMBER_WIDTH),
                left("DRAM", wide + 7 + 1 + SIZE_WIDTH),
                "L1, circular buffers included"
            ),
            format!(
                "{number}{} {} {} {} {}{}",
                left("L1_SMALL", small + 6),
                left("TRACE", small + 6),
                right("CB", SIZE_WIDTH),
                right("KERNELS", SIZE_WIDTH),
                left("RING", small + 6),
                right("WRAPS", 6),
            ),
        ];
        let mut lines: Vec<String> = heads.iter().map(|head| self.paint.heading(head)).collect();
        for device in &self.snapshot.devices {
            lines.push(format!(
                "{} {} {}  {} {}",
                right(&device.id.to_string(), NUMBER_WIDTH - 1),
                self.usage(Used::of(&device.dram), wide, 7),
                right(&bytes(device.dram.used_bytes()), SIZE_WIDTH),
                self.usage(l1(device), wide, 7),
                right(&bytes(l1(device).bytes), SIZE_WIDTH),
            ));
            lines.push(format!(
                "{number}{} {} {} {} {}{}",
                self.usage(Used::of(&device.l1_small), small, 6),
                self.usage(Used::of(&device.trace), small, 6),
                right(&bytes(device.cb.registered_bytes), SIZE_WIDTH),
                right(&bytes(device.kernel.registered_bytes), SIZE_WIDTH),
                self.usage(ring(device), small, 6),
                right(&count(wraps(device)), 6),
            ));
        }
        lines
    }

    fn usage(&self, used: Used, bar_width: usize, percent_width: usize) -> String {
        let share = Share::of(used.bytes, used.capacity);
        format!(
            "{}{}",
            painted_bar(share, bar_width, self.paint),
            right(&percent(share), percent_width)
        )
    }
}

/// Some bytes of some more.
#[derive(Clone, Copy)]
struct Used {
    bytes: u64,
    capacity: Option<u64>,
}

impl Used {
    fn of(class: &ClassUsage) -> Self {
        Self {
            bytes: class.used_bytes(),
            capacity: class.capacity_bytes,
        }
    }
}

/// What of L1 is in use for anything; of tensors alone where no more is known.
fn l1(device: &Device) -> Used {
    match device.l1.occupied_bytes {
        Some(bytes) => Used {
            bytes,
            capacity: device.l1.physical_bytes,
        },
        None => Used::of(&device.l1.class()),
    }
}

/// The config rings of the compute cores, all meshes together.
fn ring(device: &Device) -> Used {
    let rings = || {
        let of_compute = |ring: &&RingUsage| ring.core_type == CoreType::Tensix;
        device.ring.iter().filter(of_compute)
    };
    Used {
        bytes: rings().map(|ring| ring.used_bytes).sum(),
        capacity: rings()
            .filter_map(|ring| ring.capacity_bytes)
            .reduce(u64::saturating_add),
    }
}

fn wraps(device: &Device) -> u64 {
    device.ring.iter().map(|ring| ring.wraps).sum()
}

#[cfg(test)]
mod tests;
