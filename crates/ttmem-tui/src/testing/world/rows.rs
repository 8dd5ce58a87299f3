//! Buffers of a world, one by one and in groups.

use super::{NOW, World};
use crate::data::Window;
use ttmem_api::{BufferGroups, BufferPage, BufferQuery, GroupBy, SCHEMA};

impl World {
    pub(super) fn buffers(self) -> Window {
        Window {
            query: BufferQuery::default(),
            page: BufferPage {
                schema: SCHEMA,
                rows: Vec::new(),
                next: None,
                matched: Some(0),
                matched_bytes: Some(0),
            },
        }
    }

    pub(super) fn groups(self) -> (BufferQuery, BufferGroups) {
        let groups = BufferGroups {
            schema: SCHEMA,
            time: NOW,
            by: GroupBy::Operation,
            groups: Vec::new(),
            left_out: 0,
            buffers: 0,
            charged_bytes: 0,
        };
        (BufferQuery::default(), groups)
    }
}
