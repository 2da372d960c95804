//! Table of the five protocol revisions and the features each of them has.
//!
//! Code asks the revision's [`Features`] and never compares dates.

use std::fmt;

use serde::{Serialize, Serializer};

/// A published protocol revision, ordered by date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// The first revision, which the seed documents build on.
    V2024_11_05,
    /// Adds Streamable HTTP, batches, audio and tool annotations.
    V2025_03_26,
    /// Adds structured output, resource links and elicitation; removes batches.
    V2025_06_18,
    /// Reports invalid arguments as tool results; adds icons and descriptions. The last one with a
    /// handshake.
    V2025_11_25,
    /// No handshake: every request carries its protocol version.
    V2026_07_28,
}

/// The features of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a table of features")]
pub struct Features {
    /// JSON-RPC batches are accepted (C-52).
    pub batches: bool,
    /// Members of seed 002 only: `errorMessage` in results (C-24), `url` in images (C-25).
    pub seed_002_members: bool,
    /// `audio` content exists (C-40).
    pub audio: bool,
    /// Tools carry `annotations`.
    pub tool_annotations: bool,
    /// Servers declare the `completions` capability.
    pub completions: bool,
    /// Progress notifications carry `message`.
    pub progress_message: bool,
    /// `title` on tools, resources and implementations.
    pub titles: bool,
    /// `resource_link` content exists (C-26).
    pub resource_links: bool,
    /// `structuredContent` and `outputSchema`, and `_meta` on tools, resources and content.
    pub structured_content: bool,
    /// `structuredContent` may be any value, not only an object.
    pub structured_values: bool,
    /// Arguments that violate the schema are reported in a tool result, not as an error (C-31).
    pub argument_faults_as_results: bool,
    /// Event streams begin with a priming event, which has an id and no data.
    pub primed_streams: bool,
    /// `icons`, and `description` on implementations.
    pub icons: bool,
    /// `elicitation/create` has modes, defaults, titled choices and multiple choice.
    pub elicitation_modes: bool,
    /// `sampling/createMessage` offers tools, and its messages have several content blocks.
    pub sampling_tools: bool,
}

impl Revision {
    /// All revisions, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];

    /// The first revision, assumed until the client has negotiated another.
    pub const BASE: Self = Self::V2024_11_05;

    /// Returns the date that names the revision on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Looks up a revision by its exact name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.name() == name)
    }

    /// Returns whether requests are self-contained, without a handshake before them.
    pub const fn is_stateless(self) -> bool {
        matches!(self, Self::V2026_07_28)
    }

    /// Iterates over the revisions that begin with a handshake, oldest first.
    pub fn handshake() -> impl DoubleEndedIterator<Item = Self> {
        Self::ALL.into_iter().filter(|revision| !revision.is_stateless())
    }

    /// Returns the features of this revision.
    pub const fn features(self) -> Features {
        match self {
            Self::V2024_11_05 => Features {
                batches: true,
                seed_002_members: true,
                audio: false,
                tool_annotations: false,
                completions: false,
                progress_message: false,
                titles: false,
                resource_links: false,
                structured_content: false,
                structured_values: false,
                argument_faults_as_results: false,
                primed_streams: false,
                icons: false,
                elicitation_modes: false,
                sampling_tools: false,
            },
            Self::V2025_03_26 => Features {
                seed_002_members: false,
                audio: true,
                tool_annotations: true,
                completions: true,
                progress_message: true,
                ..Self::V2024_11_05.features()
            },
            Self::V2025_06_18 => Features {
                batches: false,
                titles: true,
                resource_links: true,
                structured_content: true,
                ..Self::V2025_03_26.features()
            },
            Self::V2025_11_25 => Features {
                argument_faults_as_results: true,
                primed_streams: true,
                icons: true,
                elicitation_modes: true,
                sampling_tools: true,
                ..Self::V2025_06_18.features()
            },
            Self::V2026_07_28 => {
                Features { structured_values: true, ..Self::V2025_11_25.features() }
            }
        }
    }

    /// Negotiates the handshake revision for a client that requested `requested` (C-04, C-37).
    ///
    /// It is the requested one if it is supported, otherwise the nearest by date. A text that is
    /// not a date, such as "1.0.0", selects the base revision.
    ///
    /// ```
    /// use mcp_flow_proto::Revision;
    ///
    /// assert_eq!(Revision::nearest("2025-06-18"), Revision::V2025_06_18);
    /// assert_eq!(Revision::nearest("2099-01-01"), Revision::V2025_11_25);
    /// assert_eq!(Revision::nearest("1.0.0"), Revision::V2024_11_05);
    /// ```
    pub fn nearest(requested: &str) -> Self {
        let Some(wanted) = days(requested) else { return Self::BASE };
        Self::handshake()
            .min_by_key(|revision| days(revision.name()).map(|day| day.abs_diff(wanted)))
            .unwrap_or(Self::BASE)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Serialize for Revision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Converts a date `YYYY-MM-DD` to a day count that is precise enough to compare distances.
fn days(date: &str) -> Option<i32> {
    let mut parts = date.split('-');
    let mut part = |length: usize, range: std::ops::RangeInclusive<i32>| {
        let digits = parts.next().filter(|part| part.len() == length)?;
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|number| is_number && range.contains(number))
    };
    let (year, month, day) = (part(4, 0..=9999)?, part(2, 1..=12)?, part(2, 1..=31)?);
    parts.next().is_none().then_some((year * 12 + month) * 31 + day)
}

#[cfg(test)]
mod tests {
    use super::Revision;

    /// C-04, C-37, MCP-014: negotiation picks the nearest handshake revision and never fails.
    #[test]
    fn negotiation_finds_the_nearest_handshake_revision() {
        for (requested, agreed) in [
            ("2024-11-05", "2024-11-05"),
            ("2025-03-26", "2025-03-26"),
            ("2025-06-18", "2025-06-18"),
            ("2025-11-25", "2025-11-25"),
            ("2026-07-28", "2025-11-25"),
            ("2099-12-31", "2025-11-25"),
            ("2024-10-01", "2024-11-05"),
            ("2025-01-01", "2024-11-05"),
            ("2025-06-01", "2025-06-18"),
            ("1900-01-01", "2024-11-05"),
            ("1.0", "2024-11-05"),
            ("1.0.0", "2024-11-05"),
            ("", "2024-11-05"),
            ("2025-6-18", "2024-11-05"),
            ("2025-06-18-x", "2024-11-05"),
            ("２０２５-06-18", "2024-11-05"),
            ("DRAFT-2026-v1", "2024-11-05"),
        ] {
            assert_eq!(Revision::nearest(requested).name(), agreed, "asked for {requested:?}");
        }
    }

    #[test]
    fn names_are_read_back() {
        for revision in Revision::ALL {
            assert_eq!(Revision::from_name(revision.name()), Some(revision));
        }
        assert_eq!(Revision::from_name("2024-11-06"), None);
    }
}
