//! Positions of selected values in a text.
//!
//! A file of a megabyte may have a hundred thousand values and names as long as itself. Only values
//! with problems are located, and nothing is copied.

use std::collections::HashMap;

use crate::problem::Position;

/// Tree of wanted positions, by the parts of their JSON Pointers.
#[derive(Debug, Default)]
pub(crate) struct WantedPositions {
    found: Option<Found>,
    inside: HashMap<String, WantedPositions>,
}

/// Position of a member or item.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Position of a member's name; that of the value for an item.
    name: Position,
    value: Position,
}

impl WantedPositions {
    /// Creates a tree of these JSON Pointers, none of them located yet.
    pub(crate) fn wanted<'a>(pointers: impl IntoIterator<Item = &'a str>) -> Self {
        let mut positions = Self::default();
        for pointer in pointers {
            let mut position = &mut positions;
            for part in parts(pointer) {
                position = position.inside.entry(part).or_default();
            }
        }
        positions
    }

    /// Returns the position of a member's name.
    pub(crate) fn name(&self, pointer: &str) -> Position {
        self.find(pointer).map_or(Position::START, |position| position.name)
    }

    /// Returns the position of a value.
    pub(crate) fn value(&self, pointer: &str) -> Position {
        self.find(pointer).map_or(Position::START, |position| position.value)
    }

    /// Finds the position of a value, or else that of the closest value around it.
    fn find(&self, pointer: &str) -> Option<Found> {
        let (mut position, mut found) = (self, self.found);
        for part in parts(pointer) {
            let Some(inside) = position.inside.get(&part) else { break };
            position = inside;
            found = inside.found.or(found);
        }
        found
    }

    pub(super) fn set(&mut self, name: Position, value: Position) {
        self.found = Some(Found { name, value });
    }

    /// Returns whether nothing below this value is wanted.
    pub(super) fn is_leaf(&self) -> bool {
        self.inside.is_empty()
    }

    /// Returns the wanted positions within a member or an item.
    pub(super) fn inside(&mut self, part: &str) -> Option<&mut Self> {
        self.inside.get_mut(part)
    }
}

/// Splits a JSON Pointer into parts.
fn parts(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(mcp_flow_proto::text::unescape_pointer)
}

/// Appends a part to a JSON Pointer.
pub(crate) fn push_part(pointer: &mut String, part: &str) {
    pointer.push('/');
    pointer.push_str(&mcp_flow_proto::text::escape_pointer(part));
}
