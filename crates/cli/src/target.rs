//! Which server a command is about.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::configuration::Configuration;
use crate::exit::{Exit, Failure};

/// A server, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// One that runs, at an address.
    Address(Address),
    /// One that is started for this command, and ends with it.
    Command(Spawn),
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) url: String,
    /// What is sent along with every request.
    pub(crate) headers: BTreeMap<String, String>,
}

/// What to start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spawn {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) folder: Option<String>,
}

impl Target {
    /// The target of a command line: what follows `--`, or else the first word.
    ///
    /// The words that are left are the command's own.
    pub(crate) fn find<'a>(
        words: &'a [String],
        command: &[OsString],
        configuration: &Configuration,
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
            let message = "no server is named. Give its address (http://127.0.0.1:4433/mcp), its \
                           name in the configuration, or the command that starts it after `--`";
            return Err(Failure::new(Exit::Usage, message).into());
        };
        match is_address(name) {
            true => {
                let address = Address { url: name.clone(), headers: BTreeMap::new() };
                Ok((Self::Address(address), rest))
            }
            false => Ok((configuration.find(name)?, rest)),
        }
    }
}

/// Whether this is where a server is, and not what it is called.
pub(crate) fn is_address(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_known = |scheme: &str| ["http", "https", "ws", "wss", "tcp"].contains(&scheme);
    scheme.as_deref().is_some_and(is_known) || text.starts_with("unix:")
}

#[cfg(test)]
mod tests {
    use super::{Target, is_address};
    use crate::configuration::Configuration;
    use crate::exit::{Exit, Failure};

    #[test]
    fn an_address_is_no_name() {
        for address in
            ["http://127.0.0.1:4433/mcp", "HTTPS://h", "wss://h/ws", "tcp://[::1]:1", "unix:/a"]
        {
            assert!(is_address(address), "{address}");
        }
        for name in ["everything", "ftp://h/mcp", "localhost:4433", ""] {
            assert!(!is_address(name), "{name}");
        }
    }

    /// The command line of the design: a target first, or a command last.
    #[test]
    fn a_command_takes_the_place_of_a_target() {
        let none = Configuration::default();
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
