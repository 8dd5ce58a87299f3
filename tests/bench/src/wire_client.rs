//! A client of the new protocol without a library: sends what it is told to, frame by frame.

use anyhow::{Context, Result, bail, ensure};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use ttmem_event::wire::{Clock, Frame, FrameReader, Hello, Preamble};
use ttmem_event::{Definition, Event, Source};

const BATCH: usize = 8192;

#[derive(Debug)]
pub(super) struct WireClient {
    pub(super) stream: UnixStream,
    reader: FrameReader,
    pub(super) sequence: u64,
}

impl WireClient {
    /// Introduces itself as this instance, and waits until it is welcome.
    pub(super) fn greet(stream: UnixStream, instance: [u8; 16], name: &str) -> Result<Self> {
        Self::greet_with(stream, instance, name, Vec::new())
    }

    /// The same with labels.
    pub(super) fn greet_with(
        stream: UnixStream,
        instance: [u8; 16],
        name: &str,
        labels: Vec<(&str, &str)>,
    ) -> Result<Self> {
        let mut bytes = Self::hello(instance, name, labels);
        Frame::put_clock(&mut bytes, &Clock::UNIX_NANOS);
        let mut client = Self {
            stream,
            reader: FrameReader::default(),
            sequence: 0,
        };
        client.write(&bytes)?;
        client.wait_for(|frame| matches!(frame, Frame::Welcome(_)))?;
        Ok(client)
    }

    /// What a client sends first.
    pub(super) fn hello(instance: [u8; 16], name: &str, labels: Vec<(&str, &str)>) -> Vec<u8> {
        let mut bytes = Preamble::OURS.encode().to_vec();
        let hello = Hello {
            instance,
            pid: std::process::id(),
            source: Source::Client,
            name,
            visible_devices: "",
            labels,
        };
        Frame::put_hello(&mut bytes, &hello);
        bytes
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).context("cannot send")
    }

    pub(super) fn define(&mut self, definitions: &[Definition]) -> Result<()> {
        let mut bytes = Vec::new();
        Frame::put_define(&mut bytes, definitions);
        self.write(&bytes)
    }

    /// Sends events without waiting.
    pub(super) fn send(&mut self, events: &[Event]) -> Result<()> {
        for batch in events.chunks(BATCH) {
            let mut bytes = Vec::new();
            Frame::put_events(&mut bytes, self.sequence, batch);
            self.sequence += batch.len() as u64;
            self.write(&bytes)?;
        }
        Ok(())
    }

    /// Waits until everything that was sent is applied.
    pub(super) fn wait_for_ack(&mut self) -> Result<()> {
        self.wait_for_ack_of(self.sequence)
    }

    /// Waits until everything before this event is applied.
    pub(super) fn wait_for_ack_of(&mut self, wanted: u64) -> Result<()> {
        self.wait_for(
            |frame| matches!(frame, Frame::Ack { next_sequence } if *next_sequence >= wanted),
        )
    }

    pub(super) fn wait_for(&mut self, wanted: impl Fn(&Frame<'_>) -> bool) -> Result<()> {
        let mut buffer = [0; 4096];
        loop {
            while let Some(frame) = self.reader.next_frame()? {
                if let Frame::Refused { reason, .. } = &frame {
                    bail!("the server refused: {reason}");
                }
                if wanted(&frame) {
                    return Ok(());
                }
            }
            let count = self
                .stream
                .read(&mut buffer)
                .context("the server does not answer")?;
            ensure!(count > 0, "the server ended the connection");
            self.reader.push(&buffer[..count]);
        }
    }
}
