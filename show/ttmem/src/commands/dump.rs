//! `ttmem dump`: single buffers, kernels and circular buffers, and the last events.
//!
//! There may be millions: rows are printed page by page and never kept.

use super::reach::patiently;
use crate::cli::DumpOptions;
use crate::output::{Output, Screen};
use crate::render::{Dump, DumpRow, last_events};
use anyhow::{Result, bail};
use std::io::Write;
use std::time::Duration;
use ttmem_reader::ApiClient;
use ttmem_report::{BufferRow, CbRow, KernelRow, SCHEMA, escape_json};

/// Rows asked for at once: a few megabytes of JSON.
const PAGE_ROWS: u32 = 10_000;

/// How long one page may take, over a slow link.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn run(
    client: &ApiClient,
    options: &DumpOptions,
    screen: Screen,
    output: &mut Output<impl Write>,
) -> Result<()> {
    if let Some(count) = options.last {
        let last = patiently(|| client.last(count, options.pid))?;
        let text = if options.json {
            format!("{}\n", escape_json(serde_json::to_string(&last)?))
        } else {
            last_events(&last)
        };
        output.print(&text)?;
        return Ok(());
    }
    let limit = options.limit.unwrap_or(u64::MAX);
    let mut dump = DumpRun {
        client: &client.clone().with_timeout(PATIENCE),
        limit,
        output,
        screen: (!options.json).then_some(screen),
        tables: 0,
        complete: true,
    };
    if options.json {
        dump.output.print(&format!("{{\"schema\":{SCHEMA}"))?;
    }
    if !options.kernels && !options.cbs {
        dump.list::<BufferRow>()?;
    }
    if options.kernels {
        dump.list::<KernelRow>()?;
    }
    if options.cbs {
        dump.list::<CbRow>()?;
    }
    if options.json {
        let complete = dump.complete;
        dump.output
            .print(&format!(",\"complete\":{complete}}}\n"))?;
    }
    Ok(())
}

struct DumpRun<'a, W: Write> {
    client: &'a ApiClient,
    limit: u64,
    output: &'a mut Output<W>,
    /// What tables are laid out for; none for JSON.
    screen: Option<Screen>,
    tables: u32,
    /// Whether nothing was left out so far.
    complete: bool,
}

impl<W: Write> DumpRun<'_, W> {
    fn list<R: DumpRow>(&mut self) -> Result<()> {
        match self.screen {
            Some(screen) => self.table::<R>(screen),
            None => self.json::<R>(),
        }
    }

    fn table<R: DumpRow>(&mut self, screen: Screen) -> Result<()> {
        if self.tables > 0 {
            self.output.print("\n")?;
        }
        self.tables += 1;
        let mut dump = Dump::new(screen.width, screen.color);
        let complete = self.each_page(|output, rows: &[R]| {
            output.print(&dump.rows(rows))?;
            Ok(())
        })?;
        self.output.print(&dump.finish())?;
        if !complete {
            self.output.print("there are more: raise --limit\n")?;
        }
        Ok(())
    }

    fn json<R: DumpRow>(&mut self) -> Result<()> {
        self.output.print(&format!(",\"{}\":[", R::KEY))?;
        let mut separator = "\n";
        self.complete &= self.each_page(|output, rows: &[R]| {
            for row in rows {
                output.print(separator)?;
                output.print(&escape_json(serde_json::to_string(row)?))?;
                separator = ",\n";
            }
            Ok(())
        })?;
        self.output.print("]")?;
        Ok(())
    }

    /// Walks the pages up to the limit; false when there are more rows.
    fn each_page<R: DumpRow>(
        &mut self,
        mut give: impl FnMut(&mut Output<W>, &[R]) -> Result<()>,
    ) -> Result<bool> {
        let mut left = self.limit;
        let mut cursor: Option<String> = None;
        loop {
            let wanted = u32::try_from(left).unwrap_or(PAGE_ROWS).min(PAGE_ROWS);
            let page = patiently(|| self.client.page::<R>(cursor.as_deref(), Some(wanted)))?;
            let rows = &page.rows[..page.rows.len().min(wanted as usize)];
            give(self.output, rows)?;
            left -= rows.len() as u64;
            match page.next {
                None => return Ok(true),
                Some(_more) if left == 0 => return Ok(false),
                // Without this, a server that does so could keep us for ever.
                Some(_more) if page.rows.is_empty() => bail!("the server sent an empty page"),
                next => cursor = next,
            }
        }
    }
}
