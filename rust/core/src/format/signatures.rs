//! Functions as signatures of TypeScript with indented properties.
//!
//! In: functions with a name, a description and a JSON schema of their parameters. Out: the lines of the published
//! template: descriptions, bounds and defaults are comments. A value in a comment is written as Python's `str` writes
//! it, a list or an object as JSON. Nothing is escaped, as in the template. Time is linear apart from nesting, which is
//! bounded.

use hashbrown::HashSet;

use super::schema::{Schema, check_depth, text};
use crate::error::{Error, Result};
use crate::json::{self, Layout};
use crate::message::{Node, SURROGATE, View};
use crate::path::Path;

/// The keys of a schema that are a comment above its property.
const BOUNDS: [&str; 6] = ["format", "maxItems", "maximum", "minItems", "minimum", "pattern"];

/// The spaces of a level.
const INDENT: usize = 2;

/// Appends a namespace of `functions`; `path` is the path of the list.
pub(super) fn write<N: Node>(
    functions: &[N],
    namespace: &str,
    path: Path<'_>,
    out: &mut String,
) -> Result<()> {
    out.extend(["namespace ", namespace, " {\n"]);
    for (i, function) in functions.iter().enumerate() {
        let path = path.item(i);
        Writer { path, out }.function(&Schema::new(function))?;
    }
    out.extend(["} // namespace ", namespace]);
    Ok(())
}

struct Writer<'a> {
    /// Path of a function, for errors.
    path: Path<'a>,
    out: &'a mut String,
}

impl Writer<'_> {
    fn function<N: Node>(&mut self, function: &Schema<N>) -> Result<()> {
        let Some(name) = function.text_of("name", self.path)? else {
            return Err(Error::message(self.path.key("name"), "is missing, expected a string"));
        };
        self.comments(function, 0)?;
        self.out.extend(["type ", name, " = ("]);
        if let Some(parameters) = with_properties(function, "parameters") {
            self.out.push_str("_: ");
            self.object(&parameters, INDENT, 0)?;
        }
        self.out.push_str(") => ");
        match with_properties(function, "return_parameters") {
            Some(returned) => self.object(&returned, 0, 0)?,
            None => self.out.push_str("any"),
        }
        self.out.push_str(";\n\n");
        Ok(())
    }

    /// The type of a schema; `indent` is the number of spaces before its properties.
    fn of<N: Node>(&mut self, schema: &Schema<N>, indent: usize, depth: usize) -> Result<()> {
        check_depth(depth, self.path)?;
        let kind = match schema.get("type").map(Node::view) {
            Some(View::Text(kind)) => kind,
            _ => "any",
        };
        match kind {
            "object" => return self.object(schema, indent, depth),
            "array" => match schema.get("items") {
                Some(items) => {
                    self.of(&Schema::new(items), indent, depth + 1)?;
                    self.out.push_str("[]");
                }
                None => self.out.push_str("Array<any>"),
            },
            "string" => return self.string(schema),
            "number" | "integer" => return self.choice(schema, "", "number"),
            "boolean" => self.out.push_str("boolean"),
            _ => self.out.push_str("any"),
        }
        Ok(())
    }

    fn string<N: Node>(&mut self, schema: &Schema<N>) -> Result<()> {
        let is_date =
            matches!(schema.get("format").map(Node::view), Some(View::Text("date-time" | "date")));
        self.choice(schema, "\"", if is_date { "Date" } else { "string" })
    }

    /// The values of an enumeration, or the kind of the schema.
    fn choice<N: Node>(&mut self, schema: &Schema<N>, quote: &str, kind: &str) -> Result<()> {
        let values = schema.list("enum").unwrap_or_default();
        let mut between = "";
        for value in &values {
            self.out.extend([between, quote]);
            self.shown(value)?;
            self.out.push_str(quote);
            between = " | ";
        }
        if values.is_empty() {
            self.out.push_str(kind);
        }
        Ok(())
    }

    fn object<N: Node>(&mut self, schema: &Schema<N>, indent: usize, depth: usize) -> Result<()> {
        self.out.push_str("{\n");
        let required = schema.list("required").unwrap_or_default();
        let required = required.iter().map(|name| text(name, self.path));
        let required: HashSet<&str> =
            required.filter_map(Result::transpose).collect::<Result<_>>()?;
        let properties = schema.get("properties").map(Schema::new);
        for (key, property) in properties.iter().flat_map(|properties| &properties.0) {
            let Some(key) = text(key, self.path)? else {
                let path = self.path.key("parameters");
                return Err(Error::message(path, "has a key that is not a string"));
            };
            let sign = if required.contains(key) { ": " } else { "?: " };
            self.property([key, sign], &Schema::new(property), indent, depth)?;
        }
        let others = schema.get("additionalProperties");
        if let Some(others) = others
            && matches!(others.view(), View::Bool(true) | View::Map(_))
        {
            self.spaces(indent);
            self.out.push_str("[key: string]: ");
            self.of(&Schema::new(others), indent, depth + 1)?;
            self.out.push('\n');
        }
        self.spaces(indent.saturating_sub(INDENT));
        self.out.push('}');
        Ok(())
    }

    fn property<N: Node>(
        &mut self,
        name: [&str; 2],
        schema: &Schema<N>,
        indent: usize,
        depth: usize,
    ) -> Result<()> {
        self.comments(schema, indent)?;
        for (key, value) in &schema.0 {
            let View::Text(key) = key.view() else { continue };
            if !BOUNDS.contains(&key) {
                continue;
            }
            self.spaces(indent);
            self.out.extend(["// ", key, ": "]);
            self.quoted(value)?;
            self.out.push('\n');
        }
        self.spaces(indent);
        self.out.extend(name);
        self.of(schema, indent + INDENT, depth + 1)?;
        self.out.push(',');
        if let Some(default) = schema.get("default") {
            self.out.push_str(" // default: ");
            self.quoted(default)?;
        }
        self.out.push('\n');
        Ok(())
    }

    /// The lines of a description that are more than white space.
    fn comments<N: Node>(&mut self, schema: &Schema<N>, indent: usize) -> Result<()> {
        let text = schema.text_of("description", self.path)?.unwrap_or_default();
        for line in text.split('\n').filter(|line| !line.trim().is_empty()) {
            self.spaces(indent);
            self.out.extend(["// ", line, "\n"]);
        }
        Ok(())
    }

    fn quoted<N: Node>(&mut self, value: &N) -> Result<()> {
        let quote = if matches!(value.view(), View::Text(_)) { "\"" } else { "" };
        self.out.push_str(quote);
        self.shown(value)?;
        self.out.push_str(quote);
        Ok(())
    }

    fn shown<N: Node>(&mut self, value: &N) -> Result<()> {
        match value.view() {
            View::Text(text) => self.out.push_str(text),
            View::Null => self.out.push_str("None"),
            View::Bool(value) => self.out.push_str(if value { "True" } else { "False" }),
            View::Surrogate => return Err(Error::message(self.path, SURROGATE)),
            _ => json::write(value, Layout::Line, self.path, self.out)?,
        }
        Ok(())
    }

    fn spaces(&mut self, count: usize) {
        self.out.extend(std::iter::repeat_n(' ', count));
    }
}

/// The schema of a key, if it has properties.
fn with_properties<N: Node>(function: &Schema<N>, key: &str) -> Option<Schema<N>> {
    let schema = Schema::new(function.get(key)?);
    let has_some = !Schema::new(schema.get("properties")?).0.is_empty();
    has_some.then_some(schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::MAX_WRITE_DEPTH;
    use serde_json::{Value, json};

    fn written(functions: &Value) -> Result<String> {
        let mut out = String::new();
        let functions = functions.as_array().unwrap();
        write(functions, "functions", Path::Argument("tools"), &mut out).map(|()| out)
    }

    #[test]
    fn properties_are_indented_and_bounds_are_comments() {
        let first = json!({
            "name": "f",
            "description": "Does it.\n \nTwice.",
            "parameters": {
                "type": "object",
                "required": ["a"],
                "properties": {
                    "a": {"type": "integer", "description": "How many.", "minimum": 1, "default": true},
                    "b": {"type": "string", "format": "date", "default": "now"},
                    "c": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"d": {"enum": ["x", "y"], "type": "string"}}}
                    },
                    "e": {"type": ["string", "null"], "pattern": "a+"}
                },
                "additionalProperties": {"type": "number", "enum": [1, 2]}
            },
            "return_parameters": {"type": "object", "properties": {"g": {"type": "boolean"}}}
        });
        let lines = [
            "namespace functions {",
            "// Does it.",
            "// Twice.",
            "type f = (_: {",
            "  // How many.",
            "  // minimum: 1",
            "  a: number, // default: True",
            "  // format: \"date\"",
            "  b?: Date, // default: \"now\"",
            "  c?: {",
            "    d?: \"x\" | \"y\",",
            "  }[],",
            "  // pattern: \"a+\"",
            "  e?: any,",
            "  [key: string]: 1 | 2",
            "}) => {",
            "g?: boolean,",
            "};",
            "",
            "type g = () => any;",
            "",
            "} // namespace functions",
        ];
        assert_eq!(written(&json!([first, {"name": "g"}])).unwrap(), lines.join("\n"));
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        let problem = |functions| written(&functions).unwrap_err().to_string();
        assert_eq!(
            problem(json!([{"name": "f"}, {"description": "no name"}])),
            "`tools[1].name` is missing, expected a string"
        );
        let mut deep = json!({"type": "string"});
        for _ in 0..=MAX_WRITE_DEPTH {
            deep = json!({"type": "array", "items": deep});
        }
        let parameters = json!({"type": "object", "properties": {"a": deep}});
        assert_eq!(
            problem(json!([{"name": "f", "parameters": parameters}])),
            "`tools[0].parameters` is nested deeper than 256"
        );
    }
}
