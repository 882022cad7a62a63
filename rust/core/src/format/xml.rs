//! Functions as XML elements, as Qwen3-Coder and Nemotron 3 were trained on them.
//!
//! In: functions with a name, a description and a JSON schema of their parameters. Out: the lines of the published
//! templates: an element for the function and for each parameter, and an element for each other key, in the order of the
//! keys; Nemotron's template has places for two of them. A text, a number or a word is written as Python's `str` writes it, a list or an object as JSON. Nothing is escaped,
//! as in the template. Time is linear.

use std::fmt::Write as _;

use serde::Deserialize;

use super::schema::Schema;
use crate::error::{Error, Result};
use crate::json::{self, Layout};
use crate::message::{Node, SURROGATE, View};
use crate::path::Path;
use crate::pattern::Filter;

/// The keys of a function, of a schema of parameters, and of one parameter that have places of their own.
const OF_FUNCTION: [&str; 4] = ["type", "name", "description", "parameters"];
const OF_PARAMETERS: [&str; 2] = ["type", "properties"];
const OF_PARAMETER: [&str; 3] = ["name", "type", "description"];

/// A key whose element has a place of its own.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Apart {
    /// After the description of a parameter.
    Enum,
    /// After all other elements of the parameters.
    Required,
}

impl Apart {
    fn key(self) -> &'static str {
        match self {
            Self::Enum => "enum",
            Self::Required => "required",
        }
    }
}

/// Appends an element for each function; `path` is the path of the list.
pub(super) fn write<N: Node>(
    functions: &[N],
    apart: &[Apart],
    path: Path<'_>,
    out: &mut String,
) -> Result<()> {
    for (i, function) in functions.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        let path = path.item(i);
        Writer { path, apart, out }.function(&Schema::new(function))?;
    }
    Ok(())
}

struct Writer<'a> {
    /// Path of a function, for errors.
    path: Path<'a>,
    /// Keys with a place of their own beside those of every format.
    apart: &'a [Apart],
    out: &'a mut String,
}

impl Writer<'_> {
    fn function<N: Node>(&mut self, function: &Schema<N>) -> Result<()> {
        let Some(name) = function.get("name") else {
            return Err(Error::message(self.path.key("name"), "is missing, expected a string"));
        };
        self.out.push_str("<function>");
        self.element("name", name)?;
        self.description(function)?;
        self.out.push_str("\n<parameters>");
        let empty = Schema(Vec::new());
        let parameters = function.get("parameters").map_or(empty, Schema::new);
        let properties = parameters.get("properties").map(Schema::new);
        for (name, fields) in properties.iter().flat_map(|properties| &properties.0) {
            self.out.push_str("\n<parameter>");
            self.element("name", name)?;
            let fields = Schema::new(fields);
            if let Some(kind) = fields.get("type") {
                self.shown("type", kind)?;
            }
            self.description(&fields)?;
            self.apart(&fields, Apart::Enum)?;
            self.others(&fields, &OF_PARAMETER, Some(Apart::Enum))?;
            self.out.push_str("\n</parameter>");
        }
        self.others(&parameters, &OF_PARAMETERS, Some(Apart::Required))?;
        self.apart(&parameters, Apart::Required)?;
        self.out.push_str("\n</parameters>");
        self.others(function, &OF_FUNCTION, None)?;
        self.out.push_str("\n</function>");
        Ok(())
    }

    fn description<N: Node>(&mut self, schema: &Schema<N>) -> Result<()> {
        let Some(node) = schema.get("description") else { return Ok(()) };
        match node.view() {
            View::Text(text) => {
                let text = Filter::Trim.trim(text);
                self.out.extend(["\n<description>", text, "</description>"]);
                Ok(())
            }
            _ => self.shown("description", node),
        }
    }

    /// The element of a key with a place of its own.
    fn apart<N: Node>(&mut self, schema: &Schema<N>, key: Apart) -> Result<()> {
        match schema.get(key.key()).filter(|_| self.apart.contains(&key)) {
            Some(value) => self.json(key.key(), value),
            None => Ok(()),
        }
    }

    /// Elements for the keys that have no place of their own.
    fn others<N: Node>(
        &mut self,
        schema: &Schema<N>,
        own: &[&str],
        apart: Option<Apart>,
    ) -> Result<()> {
        let apart = apart.filter(|apart| self.apart.contains(apart)).map(Apart::key);
        for (key, value) in &schema.0 {
            let key = self.key(key)?;
            if !own.contains(&key) && apart != Some(key) {
                self.element(key, value)?;
            }
        }
        Ok(())
    }

    /// A list or an object as JSON, anything else as Python's `str` writes it.
    fn element<N: Node>(&mut self, name: &str, value: &N) -> Result<()> {
        match value.view() {
            View::List(_) | View::Map(_) => self.json(name, value),
            _ => self.shown(name, value),
        }
    }

    fn json<N: Node>(&mut self, name: &str, value: &N) -> Result<()> {
        self.out.extend(["\n<", name, ">"]);
        json::write(value, Layout::Line, self.path, self.out)?;
        self.out.extend(["</", name, ">"]);
        Ok(())
    }

    fn shown<N: Node>(&mut self, name: &str, value: &N) -> Result<()> {
        self.out.extend(["\n<", name, ">"]);
        match value.view() {
            View::Text(text) => self.out.push_str(text),
            View::List(items) => {
                let mut open = "[";
                for item in &items {
                    self.out.push_str(open);
                    self.represented(item)?;
                    open = ", ";
                }
                self.out.push_str(if items.is_empty() { "[]" } else { "]" });
            }
            _ => self.represented(value)?,
        }
        self.out.extend(["</", name, ">"]);
        Ok(())
    }

    /// A value as Python's `repr` writes it; a list or an object within a list is JSON.
    fn represented<N: Node>(&mut self, value: &N) -> Result<()> {
        match value.view() {
            View::Null => self.out.push_str("None"),
            View::Bool(value) => self.out.push_str(if value { "True" } else { "False" }),
            View::Text(text) => {
                let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
                let _ = write!(self.out, "{quote}{text}{quote}");
            }
            _ => json::write(value, Layout::Line, self.path, self.out)?,
        }
        Ok(())
    }

    fn key<'n, N: Node>(&self, node: &'n N) -> Result<&'n str> {
        match node.view() {
            View::Text(text) => Ok(text),
            View::Surrogate => Err(Error::message(self.path, SURROGATE)),
            _ => Err(Error::message(self.path, "has a key that is not a string")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn written(functions: &Value, apart: &[Apart]) -> Result<String> {
        let mut out = String::new();
        let functions = functions.as_array().unwrap();
        write(functions, apart, Path::Argument("tools"), &mut out).map(|()| out)
    }

    #[test]
    fn functions_are_elements_and_other_keys_too() {
        let first = json!({
            "name": "f",
            "description": " Does it. \n",
            "strict": true,
            "parameters": {
                "type": "object",
                "required": ["a"],
                "properties": {
                    "a": {"enum": [1, "x"], "type": ["string", "null"], "default": null, "items": {"b": 1.5}}
                },
                "additionalProperties": false
            }
        });
        let lines = [
            "<function>",
            "<name>f</name>",
            "<description>Does it.</description>",
            "<parameters>",
            "<parameter>",
            "<name>a</name>",
            "<type>['string', 'null']</type>",
            "<enum>[1, \"x\"]</enum>",
            "<default>None</default>",
            "<items>{\"b\": 1.5}</items>",
            "</parameter>",
            "<additionalProperties>False</additionalProperties>",
            "<required>[\"a\"]</required>",
            "</parameters>",
            "<strict>True</strict>",
            "</function>",
            "<function>",
            "<name>g</name>",
            "<parameters>",
            "</parameters>",
            "</function>",
        ];
        let functions = json!([first, {"name": "g"}]);
        let apart = [Apart::Enum, Apart::Required];
        assert_eq!(written(&functions, &apart).unwrap(), lines.join("\n"));
    }

    #[test]
    fn elements_are_in_the_order_of_the_keys_but_those_apart() {
        let choices = json!({"default": 1, "enum": [1, 2]});
        let functions = json!([{"name": "f", "parameters": {"properties": {"a": choices}}}]);
        let (default, choices) = ("\n<default>1</default>", "\n<enum>[1, 2]</enum>");
        let text = |apart: &[Apart]| written(&functions, apart).unwrap();
        assert!(text(&[]).contains(&format!("{default}{choices}")));
        assert!(text(&[Apart::Required]).contains(&format!("{default}{choices}")));
        assert!(text(&[Apart::Enum]).contains(&format!("{choices}{default}")));
    }

    #[test]
    fn a_function_without_a_name_is_refused() {
        let problem = written(&json!([{"name": "f"}, {"description": "x"}]), &[]).unwrap_err();
        assert_eq!(problem.to_string(), "`tools[1].name` is missing, expected a string");
    }
}
