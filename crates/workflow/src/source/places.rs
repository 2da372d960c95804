//! Where the parts of a value are in its text, for those that are asked for.
//!
//! A file of a megabyte may have a hundred thousand parts, and names as long as itself. Only what
//! something is wrong with is looked for, and nothing is copied on the way there.

use std::collections::HashMap;

use crate::problem::Position;

/// The places of a text that are looked for, by the parts of their JSON Pointers.
#[derive(Debug, Default)]
pub(crate) struct Places {
    found: Option<Place>,
    inside: HashMap<String, Places>,
}

/// Where a member or item is.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The name of a member; the same as its value for an item.
    name: Position,
    value: Position,
}

impl Places {
    /// Those at these JSON Pointers, none of which has been found yet.
    pub(crate) fn wanted<'a>(pointers: impl IntoIterator<Item = &'a str>) -> Self {
        let mut places = Self::default();
        for pointer in pointers {
            let mut place = &mut places;
            for part in parts(pointer) {
                place = place.inside.entry(part).or_default();
            }
        }
        places
    }

    /// The position of the name of a member.
    pub(crate) fn name(&self, pointer: &str) -> Position {
        self.find(pointer).map_or(Position::START, |place| place.name)
    }

    /// The position of a value.
    pub(crate) fn value(&self, pointer: &str) -> Position {
        self.find(pointer).map_or(Position::START, |place| place.value)
    }

    fn find(&self, pointer: &str) -> Option<Place> {
        parts(pointer).try_fold(self, |place, part| place.inside.get(&part))?.found
    }

    pub(super) fn set(&mut self, name: Position, value: Position) {
        self.found = Some(Place { name, value });
    }

    /// Whether nothing within this place is looked for.
    pub(super) fn is_leaf(&self) -> bool {
        self.inside.is_empty()
    }

    /// What is looked for in a member or an item.
    pub(super) fn inside(&mut self, part: &str) -> Option<&mut Self> {
        self.inside.get_mut(part)
    }
}

/// The parts of a JSON Pointer.
fn parts(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(mcp_flow_proto::text::unescape_pointer)
}

/// One part more of a JSON Pointer.
pub(crate) fn push_part(pointer: &mut String, part: &str) {
    pointer.push('/');
    pointer.push_str(&mcp_flow_proto::text::escape_pointer(part));
}
