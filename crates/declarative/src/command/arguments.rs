//! Argument lists from templates.

use serde_json::Value;

use crate::model::Argument;
use crate::template::{Part, Template, Variables, lookup, shown};

/// Builds the arguments. The error names the value that cannot be passed.
pub(super) fn build(items: &[Argument], variables: &Variables) -> Result<Vec<String>, String> {
    let mut built = Builder { variables, arguments: Vec::new(), are_operands: false };
    built.add(items)?;
    Ok(built.arguments)
}

struct Builder<'a> {
    variables: &'a Variables,
    arguments: Vec<String>,
    /// Set after a literal `--`, from where values may begin with a hyphen.
    are_operands: bool,
}

impl Builder<'_> {
    fn add(&mut self, items: &[Argument]) -> Result<(), String> {
        for item in items {
            match item {
                Argument::One(template) => {
                    let argument = self.fill(template, self.variables)?;
                    self.arguments.extend(argument);
                    self.are_operands |= template.literal() == Some("--");
                }
                Argument::Group(templates) => {
                    let mut group = Vec::new();
                    for template in templates {
                        group.push(self.fill(template, self.variables)?);
                    }
                    let group: Option<Vec<_>> = group.into_iter().collect();
                    if let Some(group) = group {
                        self.arguments.extend(group);
                        let ends = templates.iter().any(|one| one.literal() == Some("--"));
                        self.are_operands |= ends;
                    }
                }
                Argument::Each(template) => self.add_each(template)?,
                Argument::When(condition, then) => {
                    if condition.holds(self.variables) {
                        self.add(then)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn add_each(&mut self, template: &Template) -> Result<(), String> {
        let Some(name) = template.variables().next() else { return Ok(()) };
        let items = match lookup(self.variables, name) {
            None => return Ok(()),
            Some(Value::Array(items)) => items.clone(),
            Some(_) => return Err(format!("`{name}` must be a list")),
        };
        // The variable stands for one item at a time, whatever its path is.
        for item in items {
            let mut variables = Variables::new();
            variables.insert(name.to_owned(), item);
            let argument = self.fill(template, &variables)?;
            self.arguments.extend(argument);
        }
        Ok(())
    }

    /// Fills in one argument; `None` if a variable is absent.
    fn fill(&self, template: &Template, variables: &Variables) -> Result<Option<String>, String> {
        let filled = template.render_with(variables, insert_scalar)?;
        let begins_with_value = matches!(template.parts().first(), Some(Part::Variable(_)));
        if let Some(text) = &filled
            && begins_with_value
            && text.starts_with('-')
            && !self.are_operands
        {
            let name = template.variables().next().unwrap_or_default();
            return Err(format!(
                "`{name}` must not begin with a hyphen, because the program would take it for an \
                 option"
            ));
        }
        Ok(filled)
    }
}

/// Inserts a text, a number or a flag.
pub(super) fn insert_scalar(name: &str, value: &Value, text: &mut String) -> Result<(), String> {
    if value.is_array() || value.is_object() {
        return Err(format!("`{name}` must be a single value"));
    }
    let value = shown(value);
    if value.contains('\0') {
        return Err(format!("`{name}` contains NUL, which no argument can"));
    }
    text.push_str(&value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::build;
    use crate::model::Action;
    use crate::read::ToolReading;
    use mcp_flow_workflow::Format;
    use serde_json::{Value, json};

    #[test]
    fn a_template_is_one_argument() {
        let args = "[a, 'x={{s}}', '{{n}}', ['-f', '{{gone}}'], ['-t', '{{s}}'], {each: l}, \
                    {each: '--e={{l}}'}, {if: {var: b}, then: [yes]}, --, '{{h}}']";
        let arguments = json!({"s": "a b; $(c)\n", "n": 5, "l": ["1 2", 3], "b": true, "h": "-r"});
        let expected = [
            "a",
            "x=a b; $(c)\n",
            "5",
            "-t",
            "a b; $(c)\n",
            "1 2",
            "3",
            "--e=1 2",
            "--e=3",
            "yes",
            "--",
            "-r",
        ];
        assert_eq!(check(args, &arguments).unwrap(), expected);
        assert_eq!(
            check("['{{s}}', '--x={{s}}', {each: l}]", &json!({"s": null})).unwrap(),
            [""; 0]
        );
    }

    #[test]
    fn options_and_nul_cannot_be_injected() {
        for (args, arguments, expected) in [
            ("['{{s}}']", json!({"s": "--output=/etc/passwd"}), "hyphen"),
            ("['{{s}}']", json!({"s": "-"}), "hyphen"),
            ("['{{s}}{{n}}']", json!({"s": "", "n": -5}), "hyphen"),
            ("[{each: l}]", json!({"l": ["a", "-x"]}), "hyphen"),
            ("[['-f', '{{s}}']]", json!({"s": "-x"}), "hyphen"),
            ("['x{{s}}']", json!({"s": "a\0b"}), "NUL"),
            ("[--, '{{s}}']", json!({"s": "\0"}), "NUL"),
            ("['{{s}}']", json!({"s": ["a"]}), "single"),
            ("['{{s}}']", json!({"s": {"a": 1}}), "single"),
            ("[{each: l}]", json!({"l": "a"}), "list"),
            ("[{each: l}]", json!({"l": [["a"]]}), "single"),
        ] {
            let error = check(args, &arguments).unwrap_err();
            assert!(error.contains(expected), "{args} {arguments}: {error}");
        }
        // A value cannot end the options by itself.
        assert!(check("['{{s}}', '{{h}}']", &json!({"s": "--", "h": "-x"})).is_err());
        assert_eq!(check("['x{{s}}', '{{h}}']", &json!({"s": "", "h": "a"})).unwrap(), ["x", "a"]);
    }

    fn check(args: &str, arguments: &Value) -> Result<Vec<String>, String> {
        let text = format!(
            "tools: [{{name: t, description: d, input: {{properties: {{s: {{}}, n: {{}}, l: {{}}, \
             b: {{}}, h: {{}}, gone: {{}}}}}}, run: {{program: x, args: {args}}}}}]"
        );
        let reading = ToolReading::of(&text, Format::Yaml, ".".as_ref());
        assert!(reading.problems.is_empty(), "{:?}", reading.problems);
        let file = reading.file.unwrap();
        let Action::Run(run) = &file.tools[0].action else { panic!("it is a command") };
        build(&run.args, arguments.as_object().unwrap())
    }
}
