//! Functions as TypeScript types, as gpt-oss was trained on them.
//!
//! In: functions with a name, a description and a JSON schema of their parameters. Out: the text of
//! OpenAI's harmony library, with its peculiarities: of a description with several lines, only a
//! function's is completely a comment; a schema without a type is `any`. Time is linear apart from
//! nesting, which is bounded.

use hashbrown::HashSet;

use super::schema::{self, Schema, check_depth};
use crate::error::{Error, Result};
use crate::json::{self, Layout};
use crate::message::{Node, View};
use crate::path::Path;

/// Appends a namespace of `functions`; `path` is the path of the list.
pub(crate) fn write<N: Node>(
    functions: &[N],
    namespace: &str,
    path: Path<'_>,
    out: &mut String,
) -> Result<()> {
    out.extend(["namespace ", namespace, " {\n\n"]);
    for (i, function) in functions.iter().enumerate() {
        let path = path.item(i);
        Writer { path, out }.function(&Schema::new(function))?;
    }
    out.extend(["} // namespace ", namespace]);
    Ok(())
}

struct Writer<'a> {
    /// Path of the list of functions, for errors.
    path: Path<'a>,
    out: &'a mut String,
}

/// How the default of an enumeration is spelled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Bare,
    Json,
}

impl Writer<'_> {
    fn function<N: Node>(&mut self, function: &Schema<N>) -> Result<()> {
        let Some(name) = self.text_of(function, "name")? else {
            return Err(Error::message(self.path.key("name"), "is missing, expected a string"));
        };
        for line in self.text_of(function, "description")?.unwrap_or_default().lines() {
            self.out.extend(["// ", line, "\n"]);
        }
        self.out.extend(["type ", name, " = ("]);
        if let Some(parameters) = function.get("parameters")
            && !matches!(parameters.view(), View::Null)
        {
            self.out.push_str("_: ");
            self.of(&Schema::new(parameters), 0, 0)?;
        }
        self.out.push_str(") => any;\n\n");
        Ok(())
    }

    /// The type of a schema, with further lines after `indent` spaces.
    fn of<N: Node>(&mut self, schema: &Schema<N>, indent: usize, depth: usize) -> Result<()> {
        check_depth(depth, self.path)?;
        if let Some(variants) = schema.list("oneOf") {
            for variant in variants {
                let variant = Schema::new(&variant);
                self.out.push('\n');
                self.spaces(indent);
                self.out.push_str(" | ");
                self.or_null(&variant, indent + 3, depth)?;
                let description = self.text_of(&variant, "description")?;
                self.comment(description, self.default_of(&variant, Choice::Json)?.as_deref());
            }
            return Ok(());
        }
        if let Some(types) = schema.list("type") {
            let mut types = types.iter().map(|name| self.text(name)).collect::<Result<Vec<_>>>()?;
            types.retain(Option::is_some);
            if !types.is_empty() {
                for (i, name) in types.into_iter().flatten().enumerate() {
                    self.out.push_str(if i > 0 { " | " } else { "" });
                    self.out.push_str(if name == "integer" { "number" } else { name });
                }
                return Ok(());
            }
        }
        match self.text_of(schema, "type")? {
            Some("object") => return self.object(schema, indent, depth),
            Some("array") => match schema.get("items") {
                Some(items) => {
                    self.of(&Schema::new(items), indent, depth + 1)?;
                    self.out.push_str("[]");
                }
                None => self.out.push_str("Array<any>"),
            },
            Some("string") => return self.string(schema),
            Some("number" | "integer") => self.out.push_str("number"),
            Some("boolean") => self.out.push_str("boolean"),
            _ => self.out.push_str("any"),
        }
        Ok(())
    }

    fn string<N: Node>(&mut self, schema: &Schema<N>) -> Result<()> {
        let mut or = "";
        for value in schema.list("enum").unwrap_or_default() {
            if let Some(value) = self.text(&value)? {
                self.out.extend([or, "\"", value, "\""]);
                or = " | ";
            }
        }
        if or.is_empty() {
            self.out.push_str("string");
        }
        Ok(())
    }

    fn object<N: Node>(&mut self, schema: &Schema<N>, indent: usize, depth: usize) -> Result<()> {
        if let Some(description) = self.text_of(schema, "description")? {
            self.line(indent, &["// ", description]);
        }
        self.out.push_str("{\n");
        let required = schema.list("required").unwrap_or_default();
        let text = |node| match Node::view(node) {
            View::Text(text) => Some(text),
            _ => None,
        };
        let required: HashSet<&str> = required.iter().filter_map(text).collect();
        let properties = schema.get("properties").map(Schema::new);
        for (key, property) in properties.iter().flat_map(|properties| &properties.0) {
            let Some(key) = self.text(key)? else {
                let path = self.path.key("parameters");
                return Err(Error::message(path, "has a key that is not a string"));
            };
            let sign = if required.contains(key) { ":" } else { "?:" };
            self.property([key, sign], &Schema::new(property), indent, depth)?;
        }
        self.spaces(indent);
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
        if let Some(title) = self.text_of(schema, "title")? {
            self.line(indent, &["// ", title]);
            self.line(indent, &["//"]);
        }
        let is_one_of = schema.get("oneOf").is_some();
        let description = self.text_of(schema, "description")?;
        if let Some(description) = description
            && !is_one_of
        {
            self.line(indent, &["// ", description]);
        }
        let examples = schema.list("examples").unwrap_or_default();
        if !examples.is_empty() {
            self.line(indent, &["// Examples:"]);
        }
        for example in &examples {
            if let Some(example) = self.text(example)? {
                self.line(indent, &["// - \"", example, "\""]);
            }
        }
        if let Some(variants) = schema.list("oneOf") {
            return self.one_of(name, schema, &variants, indent, depth);
        }
        self.spaces(indent);
        self.out.extend(name);
        self.out.push(' ');
        self.or_null(schema, indent + 4, depth)?;
        self.out.push(',');
        if !is_one_of {
            self.comment(None, self.default_of(schema, Choice::Bare)?.as_deref());
        }
        self.out.push('\n');
        Ok(())
    }

    /// A property of one of several types, each on a line.
    fn one_of<N: Node>(
        &mut self,
        name: [&str; 2],
        schema: &Schema<N>,
        variants: &[N],
        indent: usize,
        depth: usize,
    ) -> Result<()> {
        let variants: Vec<_> = variants.iter().map(Schema::new).collect();
        let description = self.text_of(schema, "description")?;
        let of_first = match variants.first() {
            Some(first) => self.text_of(first, "description")?,
            None => None,
        };
        // A description equal to that of the first type is not written.
        let above = description.filter(|_| description != of_first);
        if let Some(description) = above {
            self.line(indent, &["// ", description]);
        }
        if let Some(default) = self.default_of(schema, Choice::Bare)? {
            self.line(indent, &["// ", &default]);
        }
        self.line(indent, &name);
        for (i, variant) in variants.iter().enumerate() {
            self.spaces(indent);
            self.out.push_str(" | ");
            self.or_null(variant, indent + 3, depth)?;
            let own = self.text_of(variant, "description")?;
            let own = own.filter(|_| own != description && !(i == 0 && above.is_some()));
            self.comment(own, self.default_of(variant, Choice::Bare)?.as_deref());
            self.out.push('\n');
        }
        self.line(indent, &[","]);
        Ok(())
    }

    /// The type of a nested schema, or null if it is nullable.
    fn or_null<N: Node>(&mut self, schema: &Schema<N>, indent: usize, depth: usize) -> Result<()> {
        let start = self.out.len();
        self.of(schema, indent, depth + 1)?;
        if schema.is_true("nullable") && !self.out[start..].contains("null") {
            self.out.push_str(" | null");
        }
        Ok(())
    }

    fn default_of<N: Node>(&self, schema: &Schema<N>, choice: Choice) -> Result<Option<String>> {
        let Some(default) = schema.get("default") else { return Ok(None) };
        let is_enum = schema.list("enum").is_some_and(|values| !values.is_empty());
        let mut out = String::from("default: ");
        match (self.text(default)?, choice) {
            (Some(text), _) if !is_enum => out.extend(["\"", text, "\""]),
            (Some(text), Choice::Bare) => out.push_str(text),
            _ => json::write(default, Layout::Compact, self.path.key("parameters"), &mut out)?,
        }
        Ok(Some(out))
    }

    /// A comment at the end of a line.
    fn comment(&mut self, description: Option<&str>, default: Option<&str>) {
        let mut before = " // ";
        for part in description.into_iter().chain(default) {
            self.out.extend([before, part]);
            before = " ";
        }
    }

    fn line(&mut self, indent: usize, parts: &[&str]) {
        self.spaces(indent);
        self.out.extend(parts.iter().copied());
        self.out.push('\n');
    }

    fn spaces(&mut self, count: usize) {
        self.out.extend(std::iter::repeat_n(' ', count));
    }

    fn text_of<'s, N: Node>(&self, schema: &'s Schema<N>, key: &str) -> Result<Option<&'s str>> {
        schema.text_of(key, self.path)
    }

    /// The text of a node, if it is text.
    fn text<'s, N: Node>(&self, node: &'s N) -> Result<Option<&'s str>> {
        schema::text(node, self.path)
    }
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
    fn functions_are_written_as_harmony_writes_them() {
        let golden: Value = serde_json::from_str(include_str!("typescript_cases.json")).unwrap();
        let cases = golden["cases"].as_array().unwrap();
        assert!(!cases.is_empty());
        for case in cases {
            let lines = case["text"].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
            let text = lines.collect::<Vec<_>>().join("\n");
            assert_eq!(written(&case["functions"]).unwrap(), text, "{}", case["name"]);
        }
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
        assert_eq!(
            problem(json!([{"name": "f", "parameters": deep}])),
            "`tools[0].parameters` is nested deeper than 256"
        );
    }

    #[test]
    fn numbers_are_as_short_as_they_can_be() {
        let default = |text: &str| {
            let default: Value = serde_json::from_str(text).unwrap();
            let parameters = json!({"type": "object", "properties": {"a": {"default": default}}});
            let text = written(&json!([{"name": "f", "parameters": parameters}])).unwrap();
            text.split_once("default: ").unwrap().1.split_once('\n').unwrap().0.to_owned()
        };
        for (given, text) in [
            ("1", "1"),
            ("18446744073709551615", "18446744073709551615"),
            ("1.50", "1.5"),
            ("1e-05", "0.00001"),
            ("1e-06", "1e-6"),
            ("1e+16", "1e16"),
            ("[1E2]", "[100.0]"),
            ("1e400", "1e+400"),
        ] {
            assert_eq!(default(given), text);
        }
    }
}
