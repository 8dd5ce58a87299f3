//! The payload of a define frame: definitions, one after the other.

use super::DecodeFrameError;
use super::bytes::{Cursor, cut};
use crate::catalogue::Arch;
use crate::core::{CoreRange, CoreSet};
use crate::define::{Definition, DeviceDefinition, MeshDefinition};
use crate::event::MeshKind;
use crate::event::enumerations::enumerations;
use crate::ids::{CoresId, DeviceId, MeshId, TextId};

enumerations! {
    /// The kinds of definitions.
    DefinitionKind {
        Text = 1 "text",
        Cores = 2 "cores",
        Device = 3 "device",
        Mesh = 4 "mesh",
    }
}

/// No machine has this many chips; it bounds what a mesh event can cost.
pub const MAX_MESH_DEVICES: usize = 256;

/// Bytes before a definition's body: its kind (1) and the body's length (2).
pub const DEFINITION_HEAD_BYTES: usize = 3;

/// Bytes of the id that every body begins with.
pub const DEFINITION_ID_BYTES: usize = 4;

/// Bytes of the longest definition: its head, and as much as that can say.
pub(super) const MAX_DEFINITION_BYTES: usize = DEFINITION_HEAD_BYTES + u16::MAX as usize;

/// Stands for "not known" where a byte is a truth value.
const UNKNOWN: u8 = 0xFF;

/// The definitions of one frame, or of a client's dictionary.
///
/// Each is preceded by its kind (1) and its length (2), so that kinds from a
/// newer peer are passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionIter<'a> {
    cursor: Cursor<'a>,
}

impl<'a> DefinitionIter<'a> {
    /// Reads definitions that stand one after the other.
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Self {
        Self {
            cursor: Cursor::new("define", payload),
        }
    }

    /// The bytes after the last definition that was read.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.cursor.rest()
    }

    fn read(&mut self) -> Result<Option<Definition>, DecodeFrameError> {
        while !self.cursor.is_at_end() {
            let kind = self.cursor.u8()?;
            let len = usize::from(self.cursor.u16()?);
            let body = Cursor::new("define", self.cursor.take(len)?);
            let Some(kind) = DefinitionKind::from_code(kind) else {
                continue;
            };
            return Ok(Some(match kind {
                DefinitionKind::Text => read_text(body)?,
                DefinitionKind::Cores => read_cores(body)?,
                DefinitionKind::Device => Definition::Device(read_device(body)?),
                DefinitionKind::Mesh => Definition::Mesh(read_mesh(body)?),
            }));
        }
        Ok(None)
    }
}

impl Iterator for DefinitionIter<'_> {
    type Item = Result<Definition, DecodeFrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.read();
        if item.is_err() {
            // A peer that got one wrong is not to be believed about the others.
            self.cursor = Cursor::new("define", &[]);
        }
        item.transpose()
    }
}

fn read_text(mut body: Cursor<'_>) -> Result<Definition, DecodeFrameError> {
    let id = TextId(body.u32()?);
    if id == TextId::NONE {
        return Err(body.invalid("text id"));
    }
    let field = body.invalid("text");
    let text = std::str::from_utf8(body.rest()).map_err(|_not_utf8| field)?;
    Ok(Definition::Text {
        id,
        text: text.to_owned(),
    })
}

fn read_cores(mut body: Cursor<'_>) -> Result<Definition, DecodeFrameError> {
    let id = CoresId(body.u32()?);
    if id == CoresId::NONE {
        return Err(body.invalid("core set id"));
    }
    let mut ranges = Vec::new();
    while !body.is_at_end() {
        let (x_first, y_first) = (body.u16()?, body.u16()?);
        let (x_last, y_last) = (body.u16()?, body.u16()?);
        ranges.push(CoreRange {
            x_first,
            y_first,
            x_last,
            y_last,
        });
    }
    let cores = CoreSet::from_ranges(ranges).map_err(|_outside| body.invalid("core range"))?;
    Ok(Definition::Cores { id, cores })
}

fn read_device(mut body: Cursor<'_>) -> Result<DeviceDefinition, DecodeFrameError> {
    let id = DeviceId(body.u32()?);
    let logical_id = body.u32()?;
    let unique_id = body.u64()?;
    let has_unique_id = body.flag("unique id flag")?;
    let remote = match body.u8()? {
        0 => Some(false),
        1 => Some(true),
        UNKNOWN => None,
        _other => return Err(body.invalid("remote flag")),
    };
    Ok(DeviceDefinition {
        id,
        logical_id,
        unique_id: has_unique_id.then_some(unique_id),
        remote,
        arch: Arch::from_code(body.u16()?),
        board: TextId(body.u32()?),
        grid_columns: body.u16()?,
        grid_rows: body.u16()?,
        l1_bytes_per_core: body.u32()?,
        l1_reserved_bytes: body.u32()?,
    })
}

fn read_mesh(mut body: Cursor<'_>) -> Result<MeshDefinition, DecodeFrameError> {
    let id = MeshId(body.u32()?);
    let handle = body.u64()?;
    let kind = body.u8()?;
    let kind = MeshKind::from_code(kind).ok_or_else(|| body.invalid("mesh kind"))?;
    let _reserved = body.u8()?;
    let (rows, columns) = (body.u16()?, body.u16()?);
    let mut devices = Vec::new();
    while !body.is_at_end() {
        if devices.len() == MAX_MESH_DEVICES {
            return Err(body.invalid("device list"));
        }
        devices.push(DeviceId(body.u32()?));
    }
    let mut sorted = devices.clone();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(body.invalid("device list"));
    }
    Ok(MeshDefinition {
        id,
        kind,
        handle,
        rows,
        columns,
        devices,
    })
}

impl Definition {
    /// Appends this definition to the payload of a define frame.
    ///
    /// A text longer than a definition can be is cut at a character, a mesh at
    /// [`MAX_MESH_DEVICES`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; DEFINITION_HEAD_BYTES]);
        let kind = match self {
            Self::Text { id, text } => {
                out.extend_from_slice(&id.0.to_le_bytes());
                out.extend_from_slice(
                    cut(text, usize::from(u16::MAX) - DEFINITION_ID_BYTES).as_bytes(),
                );
                DefinitionKind::Text
            }
            Self::Cores { id, cores } => {
                out.extend_from_slice(&id.0.to_le_bytes());
                for range in cores.ranges() {
                    for corner in [range.x_first, range.y_first, range.x_last, range.y_last] {
                        out.extend_from_slice(&corner.to_le_bytes());
                    }
                }
                DefinitionKind::Cores
            }
            Self::Device(device) => {
                out.extend_from_slice(&device.id.0.to_le_bytes());
                out.extend_from_slice(&device.logical_id.to_le_bytes());
                out.extend_from_slice(&device.unique_id.unwrap_or(0).to_le_bytes());
                out.push(u8::from(device.unique_id.is_some()));
                out.push(device.remote.map_or(UNKNOWN, u8::from));
                out.extend_from_slice(&device.arch.code().to_le_bytes());
                out.extend_from_slice(&device.board.0.to_le_bytes());
                out.extend_from_slice(&device.grid_columns.to_le_bytes());
                out.extend_from_slice(&device.grid_rows.to_le_bytes());
                out.extend_from_slice(&device.l1_bytes_per_core.to_le_bytes());
                out.extend_from_slice(&device.l1_reserved_bytes.to_le_bytes());
                DefinitionKind::Device
            }
            Self::Mesh(mesh) => {
                out.extend_from_slice(&mesh.id.0.to_le_bytes());
                out.extend_from_slice(&mesh.handle.to_le_bytes());
                out.push(mesh.kind.code());
                out.push(0);
                out.extend_from_slice(&mesh.rows.to_le_bytes());
                out.extend_from_slice(&mesh.columns.to_le_bytes());
                for device in mesh.devices.iter().take(MAX_MESH_DEVICES) {
                    out.extend_from_slice(&device.0.to_le_bytes());
                }
                DefinitionKind::Mesh
            }
        };
        let len = u16::try_from(out.len() - start - DEFINITION_HEAD_BYTES)
            .expect("texts and meshes are cut, a grid has at most 512 rectangles");
        out[start] = kind.code();
        out[start + 1..start + 3].copy_from_slice(&len.to_le_bytes());
    }
}
