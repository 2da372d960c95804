//! The five revisions of the protocol, as data.
//!
//! What a revision has or lacks is a row of the table [`Features`]. Code asks the row and never
//! compares dates.

use std::fmt;

use serde::{Serialize, Serializer};

/// A published revision, older ones comparing less than newer ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// The first one, which the seed documents build on.
    V2024_11_05,
    /// Streamable HTTP, batches, audio, tool annotations.
    V2025_03_26,
    /// Structured output, resource links, elicitation; batches gone.
    V2025_06_18,
    /// Bad arguments as tool results, icons, descriptions; the last with a handshake.
    V2025_11_25,
    /// No handshake: every request says what it speaks.
    V2026_07_28,
}

/// What a revision has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a row of yes and no is what this is")]
pub struct Features {
    /// JSON-RPC batches are served (C-52).
    pub batches: bool,
    /// Members only seed 002 names: `errorMessage` in results (C-24), `url` in images (C-25).
    pub seed_002_members: bool,
    /// `audio` content exists (C-40).
    pub audio: bool,
    /// Tools carry `annotations`.
    pub tool_annotations: bool,
    /// Progress notifications carry `message`.
    pub progress_message: bool,
    /// `title` on tools and implementations.
    pub titles: bool,
    /// `resource_link` content exists (C-26).
    pub resource_links: bool,
    /// `structuredContent` and `outputSchema`, and `_meta` on tools and on content.
    pub structured_content: bool,
    /// `structuredContent` may be any value, not only an object.
    pub structured_values: bool,
    /// Arguments that break the schema are a tool result, not an error (C-31).
    pub argument_faults_as_results: bool,
    /// A stream of events begins with one that has an id and no data.
    pub primed_streams: bool,
    /// `icons`, and `description` on implementations.
    pub icons: bool,
    /// `elicitation/create` has modes, defaults, titled choices and several of them.
    pub elicitation_modes: bool,
    /// `sampling/createMessage` offers tools, and its messages have several pieces.
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

    /// The first one, which a client is taken to speak until it has said otherwise.
    pub const BASE: Self = Self::V2024_11_05;

    /// The date that names the revision on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision with exactly this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.name() == name)
    }

    /// Whether requests stand alone, without a handshake before them.
    pub const fn is_stateless(self) -> bool {
        matches!(self, Self::V2026_07_28)
    }

    /// The revisions that begin with a handshake, oldest first.
    pub fn handshake() -> impl DoubleEndedIterator<Item = Self> {
        Self::ALL.into_iter().filter(|revision| !revision.is_stateless())
    }

    /// What this revision has.
    pub const fn features(self) -> Features {
        match self {
            Self::V2024_11_05 => Features {
                batches: true,
                seed_002_members: true,
                audio: false,
                tool_annotations: false,
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

    /// The handshake revision to answer a client with that asked for `requested` (C-04, C-37).
    ///
    /// The same one if it is served, otherwise the nearest by date. What is no date, such as
    /// "1.0.0", means the base revision.
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

/// A date `YYYY-MM-DD` as a count of days, good enough to compare distances.
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

    /// C-04, C-37, MCP-014: the nearest handshake revision, never a refusal.
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
