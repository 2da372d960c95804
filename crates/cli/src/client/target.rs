//! The server a command uses: an address, a name in the configuration, or a command to start.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::configuration::{ClientConfiguration, OAuthSection};
use crate::exit::{Exit, Failure};

/// A server and the way to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A running server at an address.
    Address(Address),
    /// A server started for this command, which exits with it.
    Command(Spawn),
}

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) url: String,
    /// Headers for every request.
    pub(crate) headers: BTreeMap<String, String>,
    /// OAuth client of the server.
    pub(crate) oauth: Option<Box<OAuthSection>>,
}

/// Program to start as a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spawn {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) folder: Option<String>,
}

impl Target {
    /// Finds the target on a command line: what follows `--`, or else the first word.
    ///
    /// Returns the remaining words, which are the command's own.
    pub(crate) fn find<'a>(
        words: &'a [String],
        command: &[OsString],
        configuration: &ClientConfiguration,
    ) -> anyhow::Result<(Self, &'a [String])> {
        if let Some((program, arguments)) = command.split_first() {
            let spawn = Spawn {
                program: program.clone(),
                arguments: arguments.to_vec(),
                ..Spawn::default()
            };
            return Ok((Self::Command(spawn), words));
        }
        let Some((name, rest)) = words.split_first() else {
            let message = "no server given. Pass its address (http://127.0.0.1:4433/mcp), its name \
                           in the configuration, or, after `--`, the command that starts it";
            return Err(Failure::new(Exit::Usage, message).into());
        };
        match is_address(name) {
            true => {
                let address = Address { url: name.clone(), headers: BTreeMap::new(), oauth: None };
                Ok((Self::Address(address), rest))
            }
            false => Ok((configuration.find(name)?, rest)),
        }
    }
}

/// Returns whether a text is the address of a server rather than its name.
pub(crate) fn is_address(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_known = |scheme: &str| ["http", "https", "ws", "wss", "tcp"].contains(&scheme);
    scheme.as_deref().is_some_and(is_known) || text.starts_with("unix:")
}

#[cfg(test)]
mod tests {
    use super::{Target, is_address};
    use crate::configuration::ClientConfiguration;
    use crate::exit::{Exit, Failure};

    #[test]
    fn addresses_are_told_from_names() {
        for address in
            ["http://127.0.0.1:4433/mcp", "HTTPS://h", "wss://h/ws", "tcp://[::1]:1", "unix:/a"]
        {
            assert!(is_address(address), "{address}");
        }
        for name in ["everything", "ftp://h/mcp", "localhost:4433", ""] {
            assert!(!is_address(name), "{name}");
        }
    }

    /// A target comes first, or a command last.
    #[test]
    fn a_command_replaces_the_target() {
        let none = ClientConfiguration::default();
        let words = ["http://h/mcp", "echo", "message=hi"].map(str::to_owned);
        let (target, rest) = Target::find(&words, &[], &none).unwrap();
        assert!(matches!(target, Target::Address(_)) && rest == &words[1..]);
        let (target, rest) = Target::find(&words[1..], &["npx".into(), "x".into()], &none).unwrap();
        assert!(matches!(target, Target::Command(_)) && rest == &words[1..]);
        for wrong in [&[][..], &words[1..]] {
            let error = Target::find(wrong, &[], &none).unwrap_err();
            assert_eq!(Failure::exit_of(&error), Exit::Usage, "{error:#}");
        }
    }
}
