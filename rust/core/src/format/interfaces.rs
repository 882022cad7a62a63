//! Functions as types of TypeScript, in which required parameters come first and `$defs` are interfaces.
//!
//! In: functions with a name, a description and a JSON schema of their parameters. Out: the text of the code that Kimi
//! K2.5 was published with. Keys have no order there: all of them are sorted, and the parameters that are required come
//! first. Descriptions, bounds and defaults are comments above a parameter; what `$defs` defines is an interface. A value
//! in a comment is written as Python's `str` writes it, a list or an object as JSON. Nothing is escaped, as in that code.
//! If a schema says what these types cannot, the whole list of functions is written as JSON. Cost: one pass, and a sort
//! of the keys; nesting is bounded.

use std::borrow::Cow;

use hashbrown::HashMap;

use super::schema::is_true;
use super::sorted::sorted;
use crate::error::{Error, Result};
use crate::json::{self, Layout};
use crate::message::{Node, Owned};
use crate::path::Path;

/// The spaces of a level.
const INDENT: usize = 2;

/// What stands between two parameters.
const BETWEEN: &str = ",\n";

/// The beginning of a reference to a definition.
const DEFINITION: &str = "#/$defs/";

/// The interface of the parameters that refer to themselves.
const OWN: &str = "parameters";

/// Appends the `functions`, and tells whether as JSON; `path` is the path of the list.
pub(super) fn write<N: Node>(functions: &[N], path: Path<'_>, out: &mut String) -> Result<bool> {
    let of = |(at, function)| sorted(function, path.item(at), 0, &|key| Cow::Borrowed(key));
    let functions: Vec<Owned> = functions.iter().enumerate().map(of).collect::<Result<_>>()?;
    let start = out.len();
    match declare(&functions, path, out) {
        Err(Unwritten::Unsaid) => {
            out.truncate(start);
            let tools: Vec<Owned> = functions.into_iter().map(wrapped).collect();
            let tools: Vec<&Owned> = tools.iter().collect();
            json::write_list(&tools, Layout::Dense, path, out).map(|()| true)
        }
        Err(Unwritten::Wrong(error)) => Err(error),
        Ok(()) => Ok(false),
    }
}

/// Why a function is not written as a type.
enum Unwritten {
    /// These types cannot say it.
    Unsaid,
    /// No format can write it.
    Wrong(Error),
}

impl From<Error> for Unwritten {
    fn from(error: Error) -> Self {
        Self::Wrong(error)
    }
}

type Written<T = ()> = std::result::Result<T, Unwritten>;

/// A function as the tool that it was given as, its keys in order.
fn wrapped(function: Owned) -> Owned {
    let text = |text: &str| Owned::Text(text.to_owned());
    Owned::Map(vec![(text("function"), function), (text("type"), text("function"))])
}

fn declare(functions: &[Owned], path: Path<'_>, out: &mut String) -> Written {
    out.push_str("# Tools\n\n## functions\nnamespace functions {\n");
    for (at, function) in functions.iter().enumerate() {
        let path = path.item(at);
        let Some(name) = function.get("name").and_then(Owned::as_str) else {
            let problem = "is missing, expected a string";
            return Err(Error::message(path.key("name"), problem).into());
        };
        Writer { path, out }.function(name, function)?;
    }
    out.push_str("}\n");
    Ok(())
}

/// What a schema is to these types.
enum Kind<'a> {
    /// `any` or `null`, without a comment.
    Plain(&'static str),
    /// The name of an interface.
    Interface(&'a str),
    AnyOf(&'a [Owned]),
    Enum(&'a [Owned]),
    Union(Vec<&'static str>),
    Object,
    Array,
    Scalar(&'a str),
}

/// The kind of a schema. The first of the keys that tell kinds apart decides.
fn kind(schema: &Owned) -> Written<Kind<'_>> {
    match schema {
        Owned::Bool(true) => return Ok(Kind::Plain("any")),
        Owned::Bool(false) => return Ok(Kind::Plain("null")),
        Owned::Map(members) if members.is_empty() => return Ok(Kind::Plain("any")),
        _ => {}
    }
    if let Some(reference) = schema.get("$ref") {
        let reference = reference.as_str().ok_or(Unwritten::Unsaid)?;
        let name = reference.rsplit('/').next().unwrap_or_default();
        return Ok(Kind::Interface(if reference == "#" { OWN } else { name }));
    }
    if let Some(variants) = schema.get("anyOf") {
        return Ok(Kind::AnyOf(list(variants)?));
    }
    if let Some(values) = schema.get("enum") {
        return Ok(Kind::Enum(list(values)?));
    }
    match schema.get("type") {
        Some(Owned::List(names)) => {
            let name = |name: &Owned| name.as_str().and_then(in_union).ok_or(Unwritten::Unsaid);
            Ok(Kind::Union(names.iter().map(name).collect::<Written<_>>()?))
        }
        Some(Owned::Text(name)) => Ok(match name.as_str() {
            "object" => Kind::Object,
            "array" => Kind::Array,
            "integer" => Kind::Scalar("number"),
            name => Kind::Scalar(name),
        }),
        _ => Err(Unwritten::Unsaid),
    }
}

fn list(value: &Owned) -> Written<&[Owned]> {
    match value {
        Owned::List(items) => Ok(items),
        _ => Err(Unwritten::Unsaid),
    }
}

/// A type of several in a schema.
fn in_union(name: &str) -> Option<&'static str> {
    Some(match name {
        "string" => "string",
        "number" | "integer" => "number",
        "boolean" => "boolean",
        "null" => "null",
        "object" => "{}",
        "array" => "Array<any>",
        _ => return None,
    })
}

/// The keys of a schema that a comment above its parameter has, in order.
fn bounds(schema: &Owned) -> &'static [&'static str] {
    match schema.get("type").and_then(Owned::as_str) {
        Some("string") => &["maxLength", "minLength", "pattern"],
        Some("number" | "integer") => &["maximum", "minimum"],
        Some("array") => &["maxItems", "minItems"],
        _ => &[],
    }
}

/// The text of a description; empty if there is none.
fn description(schema: &Owned) -> Written<&str> {
    match schema.get("description") {
        Some(Owned::Text(text)) => Ok(text),
        Some(value) if is_true(value) => Err(Unwritten::Unsaid),
        _ => Ok(""),
    }
}

/// The members of an object; none for a value that is absent.
fn members(value: Option<&Owned>) -> Written<&[(Owned, Owned)]> {
    match value {
        None => Ok(&[]),
        Some(Owned::Map(members)) => Ok(members),
        Some(_) => Err(Unwritten::Unsaid),
    }
}

/// The names that a schema requires.
fn required(schema: &Owned) -> Written<Vec<&str>> {
    match schema.get("required") {
        None => Ok(Vec::new()),
        Some(Owned::List(names)) => {
            let is_name = |name: &Owned| !matches!(name, Owned::List(_) | Owned::Map(_));
            if !names.iter().all(is_name) {
                return Err(Unwritten::Unsaid);
            }
            let mut names: Vec<&str> = names.iter().filter_map(Owned::as_str).collect();
            names.sort_unstable();
            Ok(names)
        }
        Some(_) => Err(Unwritten::Unsaid),
    }
}

/// The definitions that a function's schemas have, in the order in which they are found.
#[derive(Default)]
struct Definitions<'a> {
    found: Vec<(&'a str, &'a Owned)>,
    /// Places in `found`, by their names.
    places: HashMap<&'a str, usize>,
    /// Whether the parameters refer to themselves.
    has_own: bool,
}

impl<'a> Definitions<'a> {
    /// Adds the definitions in a schema, and checks that what the schema refers to is known where it stands.
    fn of(&mut self, schema: &'a Owned) -> Written {
        match kind(schema)? {
            Kind::Interface(name) => self.find(schema, name)?,
            Kind::AnyOf(variants) => {
                for variant in variants {
                    self.of(variant)?;
                }
            }
            Kind::Enum(values) => check_values(values, schema.get("type"))?,
            Kind::Object => self.of_object(schema)?,
            Kind::Array => {
                if let Some(items) = schema.get("items").filter(|items| is_true(items)) {
                    self.of(items)?;
                }
            }
            Kind::Plain(_) | Kind::Union(_) | Kind::Scalar(_) => {}
        }
        Ok(())
    }

    fn of_object(&mut self, schema: &'a Owned) -> Written {
        for (name, definition) in members(schema.get("$defs").filter(|value| is_true(value)))? {
            let name = name.as_str().unwrap_or_default();
            if let Some(&at) = self.places.get(name) {
                self.found[at].1 = definition;
            } else {
                self.places.insert(name, self.found.len());
                self.found.push((name, definition));
            }
        }
        if let Some(others @ Owned::Map(_)) = schema.get("additionalProperties") {
            self.of(others)?;
        }
        for (_, property) in members(schema.get("properties"))? {
            self.of(property)?;
        }
        Ok(())
    }

    fn find(&mut self, schema: &Owned, name: &str) -> Written {
        match schema.get("$ref").and_then(Owned::as_str) {
            Some("#") => self.has_own = true,
            Some(reference) if reference.starts_with(DEFINITION) => {
                let definition = self.places.get(name).map(|&at| self.found[at].1);
                if !matches!(definition, Some(Owned::Map(_))) {
                    return Err(Unwritten::Unsaid);
                }
            }
            _ => return Err(Unwritten::Unsaid),
        }
        Ok(())
    }
}

/// Checks that the values of an enumeration are of its type.
fn check_values(values: &[Owned], of: Option<&Owned>) -> Written {
    let of = match of {
        Some(Owned::List(names)) => {
            let is_null = |name: &Owned| name.as_str() == Some("null");
            match &names[..] {
                [name] => Some(name),
                [null, name] | [name, null] if is_null(null) => Some(name),
                _ => return Err(Unwritten::Unsaid),
            }
        }
        of => of,
    };
    let is_whole = |text: &str| !text.contains(['.', 'e', 'E', 'n']);
    let fits = |value: &Owned| match (of.and_then(Owned::as_str), value) {
        (_, Owned::Null)
        | (Some("string"), Owned::Text(_))
        | (Some("number"), Owned::Number(_))
        | (Some("number" | "integer" | "boolean"), Owned::Bool(_)) => true,
        (Some("integer"), Owned::Number(text)) => is_whole(text),
        (Some("string" | "number" | "integer" | "boolean"), _) => false,
        _ => true,
    };
    if values.iter().all(fits) { Ok(()) } else { Err(Unwritten::Unsaid) }
}

struct Writer<'a> {
    /// Path of a function, for errors.
    path: Path<'a>,
    out: &'a mut String,
}

impl Writer<'_> {
    fn function(&mut self, name: &str, function: &Owned) -> Written {
        let none = Owned::Map(Vec::new());
        let parameters = function.get("parameters").filter(|value| is_true(value)).unwrap_or(&none);
        members(Some(parameters))?;
        let mut definitions = Definitions::default();
        definitions.of_object(parameters)?;
        if definitions.has_own {
            self.out.extend(["interface ", OWN, " {"]);
            let required = required(parameters)?;
            let mut before = "\n";
            for property in members(parameters.get("properties"))? {
                self.out.push_str(before);
                self.property(property, &required, INDENT)?;
                before = BETWEEN;
            }
            self.out.push_str(if before == BETWEEN { "\n}\n" } else { "}\n" });
        }
        for (name, definition) in definitions.found.clone() {
            definitions.of(definition)?;
            members(Some(definition))?;
            self.comment(description(definition)?, 0);
            self.out.extend(["interface ", name, " "]);
            self.of(definition, 0)?;
            self.out.push('\n');
        }
        self.comment(description(function)?, 0);
        self.out.extend(["type ", name, " = (_: "]);
        if definitions.has_own {
            self.out.push_str(OWN);
        } else {
            self.object(parameters, 0)?;
        }
        self.out.push_str(") => any;\n");
        Ok(())
    }

    /// The type of a schema, on lines indented by `indent` spaces.
    fn of(&mut self, schema: &Owned, indent: usize) -> Written {
        match kind(schema)? {
            Kind::Plain(name) | Kind::Interface(name) | Kind::Scalar(name) => {
                self.out.push_str(name);
            }
            Kind::AnyOf(variants) => {
                for (at, variant) in variants.iter().enumerate() {
                    self.out.push_str(if at > 0 { " | " } else { "" });
                    self.of(variant, indent)?;
                }
            }
            Kind::Enum(values) => {
                for (at, value) in values.iter().enumerate() {
                    let quote = if matches!(value, Owned::Text(_)) { "\"" } else { "" };
                    self.out.extend([if at > 0 { " | " } else { "" }, quote]);
                    self.shown(value)?;
                    self.out.push_str(quote);
                }
            }
            Kind::Union(names) => self.out.push_str(&names.join(" | ")),
            Kind::Object => self.object(schema, indent)?,
            Kind::Array => self.array(schema, indent)?,
        }
        Ok(())
    }

    fn object(&mut self, schema: &Owned, indent: usize) -> Written {
        let required = required(schema)?;
        let is_required = |(name, _): &&(Owned, Owned)| is_in(&required, name);
        let properties = members(schema.get("properties"))?;
        let first = properties.iter().filter(is_required);
        let rest = properties.iter().filter(|property| !is_required(property));
        let mut before = "{\n";
        for property in first.chain(rest) {
            self.out.push_str(before);
            self.property(property, &required, indent + INDENT)?;
            before = BETWEEN;
        }
        let others = schema.get("additionalProperties");
        if let Some(others) = others.filter(|others| !matches!(others, Owned::Null)) {
            self.out.push_str(before);
            self.spaces(indent + INDENT);
            self.out.push_str("[k: string]: ");
            match others {
                Owned::Bool(true) => self.out.push_str("any"),
                Owned::Bool(false) => self.out.push_str("never"),
                Owned::Map(_) => self.of(others, indent + INDENT)?,
                _ => return Err(Unwritten::Unsaid),
            }
            before = BETWEEN;
        }
        if before == BETWEEN {
            self.out.push('\n');
            self.spaces(indent);
            self.out.push('}');
        } else {
            self.out.push_str("{}");
        }
        Ok(())
    }

    fn property(
        &mut self,
        (name, schema): &(Owned, Owned),
        required: &[&str],
        indent: usize,
    ) -> Written {
        self.comments(schema, indent)?;
        if let Some(default) =
            schema.get("default").filter(|default| !matches!(default, Owned::Null))
        {
            self.spaces(indent);
            self.out.push_str("// Default: ");
            match default {
                Owned::Bool(_) => self.shown(default)?,
                _ => json::write(&default, Layout::Line, self.path, self.out)?,
            }
            self.out.push('\n');
        }
        self.spaces(indent);
        let sign = if is_in(required, name) { ": " } else { "?: " };
        self.out.extend([name.as_str().unwrap_or_default(), sign]);
        self.of(schema, indent)
    }

    fn array(&mut self, schema: &Owned, indent: usize) -> Written {
        let Some(items) = schema.get("items").filter(|items| is_true(items)) else {
            self.out.push_str("Array<any>");
            return Ok(());
        };
        self.out.push_str("Array<");
        let start = self.out.len();
        self.comments(items, indent + INDENT)?;
        if self.out.len() == start {
            self.of(items, indent)?;
        } else {
            self.out.insert(start, '\n');
            self.spaces(indent + INDENT);
            self.of(items, indent + INDENT)?;
            self.out.push('\n');
            self.spaces(indent);
        }
        self.out.push('>');
        Ok(())
    }

    /// The description and the bounds of a schema, a line each.
    fn comments(&mut self, schema: &Owned, indent: usize) -> Written {
        self.comment(description(schema)?, indent);
        let keys = if matches!(kind(schema)?, Kind::Scalar(_) | Kind::Array) {
            bounds(schema)
        } else {
            &[]
        };
        let mut before = "// ";
        for (key, value) in keys.iter().filter_map(|key| Some((key, schema.get(key)?))) {
            if before == "// " {
                self.spaces(indent);
            }
            self.out.extend([before, key, ": "]);
            self.shown(value)?;
            before = ", ";
        }
        self.out.push_str(if before == ", " { "\n" } else { "" });
        Ok(())
    }

    /// The lines of a text as comments; an empty line is empty.
    fn comment(&mut self, text: &str, indent: usize) {
        if text.is_empty() {
            return;
        }
        for line in text.split('\n') {
            if !line.is_empty() {
                self.spaces(indent);
                self.out.extend(["// ", line]);
            }
            self.out.push('\n');
        }
    }

    /// A value as Python's `str` writes it.
    fn shown(&mut self, value: &Owned) -> Written {
        match value {
            Owned::Text(text) => self.out.push_str(text),
            Owned::Null => self.out.push_str("None"),
            Owned::Bool(value) => self.out.push_str(if *value { "True" } else { "False" }),
            value => json::write(&value, Layout::Line, self.path, self.out)?,
        }
        Ok(())
    }

    fn spaces(&mut self, count: usize) {
        self.out.extend(std::iter::repeat_n(' ', count));
    }
}

/// Whether a name is one of names that are in order.
fn is_in(names: &[&str], name: &Owned) -> bool {
    name.as_str().is_some_and(|name| names.binary_search(&name).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::MAX_WRITE_DEPTH;
    use serde_json::{Value, json};

    fn written(functions: &Value) -> Result<String> {
        let mut out = String::new();
        let functions = functions.as_array().unwrap();
        write(functions, Path::Argument("tools"), &mut out).map(|_| out)
    }

    #[test]
    fn functions_are_written_as_the_published_code_writes_them() {
        let golden: Value = serde_json::from_str(include_str!("interfaces_cases.json")).unwrap();
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
        let parameters = json!({"type": "object", "properties": {"a": deep}});
        assert_eq!(
            problem(json!([{"name": "f", "parameters": parameters}])),
            "`tools[0].parameters` is nested deeper than 256"
        );
    }

    #[test]
    fn definitions_count_once() {
        let count = 2000;
        let reference = |at: usize| json!({"$ref": format!("#/$defs/D{}", (at + 1) % count)});
        let definition = |at: usize| {
            let both = json!({"a": reference(at), "b": reference(at * 7)});
            (format!("D{at}"), json!({"type": "object", "properties": both}))
        };
        let definitions: serde_json::Map<String, Value> = (0..count).map(definition).collect();
        let parameters = json!({"$defs": definitions, "properties": {"a": reference(0)}});
        let text = written(&json!([{"name": "f", "parameters": parameters}])).unwrap();
        assert_eq!(text.matches("interface ").count(), count);
    }
}
