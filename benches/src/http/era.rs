//! Headers and params of a call over HTTP, which differ by revision.

use std::fmt;

use serde::Serialize;

/// The two kinds of revisions.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Era {
    /// 2025-11-25: `initialize` first, then calls that may name a session.
    Handshake,
    /// 2026-07-28: every call is self-contained.
    Stateless,
}

impl Era {
    pub(crate) const ALL: [Self; 2] = [Self::Handshake, Self::Stateless];

    pub(crate) fn revision(self) -> &'static str {
        match self {
            Self::Handshake => "2025-11-25",
            Self::Stateless => "2026-07-28",
        }
    }

    /// Returns the headers of every call in this era.
    pub(crate) fn headers(self) -> &'static str {
        match self {
            Self::Handshake => "MCP-Protocol-Version: 2025-11-25\r\n",
            Self::Stateless => {
                "MCP-Protocol-Version: 2026-07-28\r\n\
                 Mcp-Method: tools/call\r\n\
                 Mcp-Name: calculator.add\r\n"
            }
        }
    }

    /// Returns the additional params of every call in this era.
    pub(crate) fn params(self) -> &'static str {
        match self {
            Self::Handshake => "",
            Self::Stateless => {
                r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#
            }
        }
    }
}

impl fmt::Display for Era {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.revision())
    }
}
