//! Rejects variables in code: what an interpreter runs must be the author's.

use std::path::Path;

use mcp_flow_workflow::document::Fields;

use crate::model::Argument;
use crate::template::{Part, Template, ValueTemplate};

/// Checks that no variable is in the code of an interpreter, or decides which program runs.
pub(super) fn check(
    program: &str,
    args: &[Argument],
    stdin: Option<&ValueTemplate>,
    fields: &Fields<'_>,
) {
    let mut words = Vec::new();
    collect(args, &mut words);
    let mut has_variables = false;
    if let Some(stdin) = stdin {
        stdin.each_variable(&mut |_| has_variables = true);
    }
    match find(program, &words, has_variables) {
        None => {}
        Some(Finding::Code { interpreter, in_stdin }) => {
            let message = format!(
                "the code that {interpreter} runs cannot have variables, which could contain code; \
                 pass them as further arguments, such as \"$1\" of a shell"
            );
            fields.note(if in_stdin { "stdin" } else { "args" }, message);
        }
        Some(Finding::Program(wrapper)) => {
            let message = format!(
                "the program that {wrapper} starts cannot have variables; declare one tool for each"
            );
            fields.note("args", message);
        }
    }
}

/// A variable that could contain code.
enum Finding<'a> {
    Code { interpreter: &'a str, in_stdin: bool },
    Program(&'a str),
}

/// A program that runs code in its arguments.
struct Interpreter {
    name: &'static str,
    /// Letters of options before code.
    flags: &'static str,
    /// Letters of options whose value may follow them in the same argument.
    values: &'static str,
    /// Long options before code.
    long: &'static [&'static str],
    /// Set if code is the first operand, unless an option has it.
    is_operand: bool,
}

const fn interpreter(
    name: &'static str,
    flags: &'static str,
    values: &'static str,
    long: &'static [&'static str],
) -> Interpreter {
    Interpreter { name, flags, values, long, is_operand: false }
}

const fn operand(
    name: &'static str,
    values: &'static str,
    long: &'static [&'static str],
) -> Interpreter {
    Interpreter { name, flags: "e", values, long, is_operand: true }
}

/// Collects the templates of all arguments in order, as if every condition held.
fn collect<'a>(args: &'a [Argument], words: &mut Vec<&'a Template>) {
    for argument in args {
        match argument {
            Argument::One(template) | Argument::Each(template) => words.push(template),
            Argument::Group(templates) => words.extend(templates),
            Argument::When(_, then) => collect(then, words),
        }
    }
}

fn find<'a>(program: &'a str, words: &[&'a Template], stdin: bool) -> Option<Finding<'a>> {
    let name = base_name(program);
    if let Some(interpreter) = INTERPRETERS.iter().find(|one| one.name == name)
        && let Some(in_stdin) = interpreter.code_with_variables(words, stdin)
    {
        return Some(Finding::Code { interpreter: name, in_stdin });
    }
    let (_, operands_before) = WRAPPERS.iter().find(|(wrapper, _)| *wrapper == name)?;
    // Which argument is the program depends on options; a name that is known is taken for it.
    let inner = words.iter().enumerate().find_map(|(index, word)| {
        let literal = word.literal()?;
        is_known(base_name(literal)).then_some((index, literal))
    });
    if let Some((index, literal)) = inner {
        return find(literal, &words[index + 1..], stdin);
    }
    let mut operands = words.iter().filter(|word| {
        let text = beginning(word);
        !text.starts_with('-') && !text.contains('=')
    });
    let is_program = operands.nth((*operands_before)?)?.literal().is_none();
    // Otherwise it is the value of an option.
    let is_last = operands.all(|word| word.literal().is_none());
    (is_program && is_last).then_some(Finding::Program(name))
}

/// Text before the first variable.
fn beginning(word: &Template) -> &str {
    match word.parts().first() {
        Some(Part::Text(text)) => text,
        Some(Part::Variable(_)) | None => "",
    }
}

impl Interpreter {
    /// Returns whether code has variables: `Some(true)` if it is read from the input.
    fn code_with_variables(&self, words: &[&Template], stdin: bool) -> Option<bool> {
        let mut words = words.iter();
        let mut has_script = false;
        while let Some(word) = words.next() {
            let text = beginning(word);
            let has_variables = word.literal().is_none();
            match self.flag(text) {
                Flag::Code if has_variables => return Some(false),
                Flag::Code => {
                    // Shells take other options between.
                    let code = words.find(|word| {
                        !word.literal().is_some_and(|text| text.starts_with(['-', '+']))
                    });
                    if code.is_some_and(|code| code.literal().is_none()) {
                        return Some(false);
                    }
                    if self.flags.contains('c') {
                        return None;
                    }
                    // Others take code several times.
                    has_script = true;
                }
                Flag::Value if self.is_operand => {
                    has_script |= text == "-f";
                    words.next();
                }
                Flag::Value | Flag::Other => {
                    // A module of Python.
                    has_script |= text.starts_with("-m");
                    if text == "--" && !self.is_operand {
                        return None;
                    }
                }
                Flag::None if self.is_operand && !has_script => {
                    return has_variables.then_some(false);
                }
                // A script, whose arguments are its own.
                Flag::None if text.contains(['/', '.']) => return None,
                // A script, or the value of an option.
                Flag::None => has_script = true,
            }
        }
        let reads_code = stdin && !has_script && !self.is_operand && self.name != "env";
        reads_code.then_some(true)
    }

    /// Returns what an argument that begins with a text is.
    fn flag(&self, text: &str) -> Flag {
        if let Some(name) = text.strip_prefix("--") {
            let name = name.split('=').next().unwrap_or_default();
            let is_code = self.long.contains(&name);
            return if is_code { Flag::Code } else { Flag::Other };
        }
        let Some(letters) = text.strip_prefix('-') else { return Flag::None };
        if self.long.contains(&letters.to_ascii_lowercase().as_str()) {
            return Flag::Code;
        }
        for letter in letters.chars().take_while(char::is_ascii_alphanumeric) {
            if self.flags.contains(letter) {
                return Flag::Code;
            }
            if self.values.contains(letter) {
                return if letters.len() == 1 { Flag::Value } else { Flag::Other };
            }
        }
        Flag::Other
    }
}

/// Kind of an argument.
enum Flag {
    /// An option, in or behind which is code.
    Code,
    /// An option with a value behind it.
    Value,
    Other,
    /// No option.
    None,
}

/// Name of a program without directory and version.
fn base_name(program: &str) -> &str {
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.trim_end_matches(|character: char| !character.is_ascii_alphabetic())
}

fn is_known(name: &str) -> bool {
    INTERPRETERS.iter().any(|one| one.name == name) || WRAPPERS.iter().any(|(one, _)| *one == name)
}

const INTERPRETERS: [Interpreter; 31] = [
    interpreter("sh", "c", "", &[]),
    interpreter("bash", "c", "", &[]),
    interpreter("dash", "c", "", &[]),
    interpreter("ash", "c", "", &[]),
    interpreter("zsh", "c", "", &[]),
    interpreter("ksh", "c", "", &[]),
    interpreter("csh", "c", "", &[]),
    interpreter("tcsh", "c", "", &[]),
    interpreter("fish", "cC", "", &["command", "init-command"]),
    interpreter("su", "c", "", &["command", "session-command"]),
    interpreter("script", "c", "", &["command"]),
    interpreter("env", "S", "uC", &["split-string"]),
    interpreter("python", "c", "mWX", &[]),
    interpreter("pypy", "c", "mWX", &[]),
    interpreter("perl", "eE", "IMmCDFilx", &[]),
    interpreter("ruby", "e", "IrCFKTWxE", &[]),
    interpreter("node", "ep", "rC", &["eval", "print"]),
    interpreter("nodejs", "ep", "rC", &["eval", "print"]),
    interpreter("bun", "ep", "r", &["eval", "print"]),
    interpreter("php", "rBRE", "dzfFcSt", &["run", "process-begin", "process-code", "process-end"]),
    interpreter("pwsh", "cCeE", "", &["command", "encodedcommand"]),
    interpreter("powershell", "cCeE", "", &["command", "encodedcommand"]),
    interpreter("lua", "e", "l", &[]),
    interpreter("julia", "eE", "LpJ", &["eval", "print"]),
    interpreter("Rscript", "e", "", &[]),
    interpreter("osascript", "e", "l", &[]),
    operand("awk", "Fvf", &["source"]),
    operand("gawk", "Fvfi", &["source"]),
    operand("mawk", "Fvf", &[]),
    operand("nawk", "Fvf", &[]),
    operand("sed", "fl", &["expression"]),
];

/// Programs that start others, and the number of their own operands before those; `None` if other
/// arguments may be variables without a program.
const WRAPPERS: [(&str, Option<usize>); 16] = [
    ("env", Some(0)),
    ("sudo", Some(0)),
    ("doas", Some(0)),
    ("nice", Some(0)),
    ("ionice", Some(0)),
    ("nohup", Some(0)),
    ("setsid", Some(0)),
    ("stdbuf", Some(0)),
    ("time", Some(0)),
    ("xargs", None),
    ("timeout", Some(1)),
    ("chroot", Some(1)),
    ("unshare", None),
    ("busybox", Some(0)),
    ("flock", None),
    ("find", None),
];
