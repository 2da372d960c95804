//! The ways of a call that are compared: direct, through the gateway, and through rivals.

use std::path::{Path, PathBuf};

use crate::{
    binary::{Target, WORKSPACE},
    http::{
        era::Era,
        load::{Load, measure},
        sample::Sample,
    },
    listening::{Listening, Program, SERVE},
    placement::Placement,
};

/// The way of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Direct,
    /// To a server over Streamable HTTP.
    Http,
    /// To a server that the gateway starts.
    Stdio,
    /// As `Stdio`, by the revision that rivals know.
    Earlier,
    /// To the same server behind a rival.
    Rival(&'static str),
}

impl Kind {
    pub(super) const OWN: [Self; 4] = [Self::Direct, Self::Http, Self::Stdio, Self::Earlier];

    /// The rivals; none before `interop/install` has run.
    pub(super) fn rivals() -> Vec<Self> {
        let is_there = |name: &str| match name {
            "mcp-proxy" => interop("mcp-proxy/.installed").exists(),
            "supergateway" => interop("supergateway/node_modules").exists(),
            _ => true,
        };
        let rivals = ["mcp-proxy", "supergateway", "fastmcp"].into_iter();
        let rivals = rivals.filter(|name| python().exists() && is_there(name));
        rivals.map(Self::Rival).collect()
    }

    pub(super) fn label(self) -> String {
        match self {
            Self::Direct => "direct".to_owned(),
            Self::Http => "gateway to HTTP".to_owned(),
            Self::Stdio => "gateway to stdio".to_owned(),
            Self::Earlier => format!("gateway to stdio, {}", Era::Handshake),
            Self::Rival(name) => format!("{name} to stdio, {}", Era::Handshake),
        }
    }

    /// Starts the servers, and puts the load on the one that clients see.
    pub(super) fn measure(
        self,
        load: Load,
        target: &Target,
        mcp_flow: &Path,
        placement: Placement,
    ) -> anyhow::Result<Sample> {
        let folder = target.scratch()?;
        let words =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let serve = words(&[&SERVE[..], &["--store", "memory:"]].concat());
        let bridge = words(&["bridge", "--listen", "127.0.0.1:0", "--json"]);
        let upstream = [mcp_flow.display().to_string()].into_iter();
        let upstream = upstream.chain(words(&["stdio", "--store", "memory:"]));
        let program = |path, arguments| Program { path, arguments, folder: &folder };
        match self {
            Self::Direct => {
                measure(program(mcp_flow, &serve), Era::Stateless, load, placement, None)
            }
            Self::Http => {
                let upstream = Listening::start(program(mcp_flow, &serve), placement)?;
                let mut arguments = bridge;
                arguments.push(format!("http://{}/mcp", upstream.address));
                measure(program(mcp_flow, &arguments), Era::Stateless, load, placement, None)
            }
            Self::Stdio | Self::Earlier => {
                let mut arguments = bridge;
                arguments.push("--".to_owned());
                arguments.extend(upstream);
                let era = if self == Self::Stdio { Era::Stateless } else { Era::Handshake };
                measure(program(mcp_flow, &arguments), era, load, placement, None)
            }
            Self::Rival(name) => {
                let script = interop("python/rival.py").display().to_string();
                let mut arguments = vec![script, name.to_owned()];
                arguments.extend(upstream);
                measure(program(&python(), &arguments), Era::Handshake, load, placement, None)
            }
        }
    }
}

fn python() -> PathBuf {
    interop("python/.venv/bin/python")
}

fn interop(path: &str) -> PathBuf {
    Path::new(WORKSPACE).join("interop").join(path)
}
