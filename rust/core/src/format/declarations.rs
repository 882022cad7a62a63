//! Tools as Gemma 4 declares them: bare keys, strings between two control tokens, types in upper case.
//!
//! In: the JSON list of the tools. Out: text, and the places of the control tokens. The order of keys and of
//! properties is that of the model's template, as are its peculiarities: a schema of an object without properties
//! shows its other keys as properties, and several types are one text.

use serde::Deserialize;

use super::schema::is_true;
use crate::json::MAX_WRITE_DEPTH;
use crate::message::{Node, Owned, View};

/// A part of the declarations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Declared {
    Text(String),
    /// The token around a string.
    Quote,
    /// The text between two tools.
    Between,
}

/// A key that a parameter has, with nothing in it, even where its schema lacks it.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Always {
    Description,
}

/// The declarations of tools in JSON; none for other text.
pub(super) fn declared(tools: &str, always: &[Always]) -> Option<Vec<Declared>> {
    let Owned::List(tools) = Owned::of_json(tools) else { return None };
    let mut writer = Writer { always, parts: Vec::new() };
    for (at, tool) in tools.iter().enumerate() {
        let function = tool.get("function").unwrap_or(tool);
        if at > 0 {
            writer.parts.push(Declared::Between);
        }
        writer.function(function.get("name")?.as_str()?, function);
    }
    (!tools.is_empty()).then_some(writer.parts)
}

/// Keys that are no properties where an object has no `properties`.
const STANDARD_KEYS: [&str; 5] = ["description", "type", "properties", "required", "nullable"];

/// The members of a mapping in the order in which templates sort them; none for other values.
fn sorted(value: Option<&Owned>) -> Vec<(&str, &Owned)> {
    let Some(Owned::Map(members)) = value else { return Vec::new() };
    let mut members: Vec<(&str, &Owned)> =
        members.iter().filter_map(|(key, value)| Some((key.as_str()?, value))).collect();
    members.sort_by_cached_key(|(key, _)| key.to_lowercase());
    members
}

/// A type in upper case, as the template writes it.
fn type_of(schema: &Owned) -> String {
    match schema.get("type") {
        Some(Owned::Text(name)) => name.to_uppercase(),
        Some(Owned::List(names)) => {
            let names = names.iter().filter_map(Owned::as_str);
            let names: Vec<String> =
                names.map(|name| format!("'{}'", name.to_uppercase())).collect();
            format!("[{}]", names.join(", "))
        }
        _ => String::new(),
    }
}

struct Writer<'a> {
    always: &'a [Always],
    parts: Vec<Declared>,
}

impl Writer<'_> {
    fn push(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(Declared::Text(last)) => last.push_str(text),
            _ => self.parts.push(Declared::Text(text.to_owned())),
        }
    }

    fn quoted(&mut self, text: &str) {
        self.parts.push(Declared::Quote);
        if !text.is_empty() {
            self.parts.push(Declared::Text(text.to_owned()));
        }
        self.parts.push(Declared::Quote);
    }

    /// A description: text, or any other value as text.
    fn described(&mut self, value: Option<&Owned>) {
        let text = value.and_then(Owned::as_str).unwrap_or_default();
        self.quoted(text);
    }

    fn function(&mut self, name: &str, function: &Owned) {
        self.push("declaration:");
        self.push(name);
        self.push("{description:");
        self.described(function.get("description"));
        if let Some(parameters) = function.get("parameters").filter(|value| is_true(value)) {
            self.push(",parameters:{");
            if let Some(properties) = parameters.get("properties").filter(|value| is_true(value)) {
                self.push("properties:{");
                self.properties(Some(properties), false, 1);
                self.push("},");
            }
            if let Some(required) = parameters.get("required").filter(|value| is_true(value)) {
                self.required(required);
                self.push(",");
            }
            if parameters.get("type").is_some_and(is_true) {
                self.push("type:");
                self.quoted(&type_of(parameters));
            }
            self.push("}");
        }
        if let Some(response) = function.get("response") {
            self.push(",response:{");
            if let Some(description) = response.get("description").filter(|value| is_true(value)) {
                self.push("description:");
                self.described(Some(description));
                self.push(",");
            }
            if type_of(response) == "OBJECT" {
                self.push("type:");
                self.quoted("OBJECT");
            }
            self.push("}");
        }
        self.push("}");
    }

    fn required(&mut self, names: &Owned) {
        self.push("required:[");
        let Owned::List(names) = names else { return self.push("]") };
        for (at, name) in names.iter().enumerate() {
            self.push(if at > 0 { "," } else { "" });
            self.described(Some(name));
        }
        self.push("]");
    }

    /// The properties of an object, or what its schema has beside the standard keys.
    fn properties(&mut self, properties: Option<&Owned>, filters: bool, depth: usize) {
        if depth > MAX_WRITE_DEPTH {
            return;
        }
        let members = sorted(properties).into_iter();
        let members = members.filter(|(key, _)| !filters || !STANDARD_KEYS.contains(key));
        for (at, (key, schema)) in members.enumerate() {
            self.push(if at > 0 { "," } else { "" });
            self.push(key);
            self.push(":{");
            self.schema(schema, depth);
            self.push("}");
        }
    }

    fn schema(&mut self, schema: &Owned, depth: usize) {
        let mut comma = "";
        let mut next = |writer: &mut Self| writer.push(std::mem::replace(&mut comma, ","));
        let name = type_of(schema);
        let description = schema.get("description").filter(|value| is_true(value));
        if description.is_some() || self.always.contains(&Always::Description) {
            next(self);
            self.push("description:");
            self.described(description);
        }
        if let Some(choices) =
            schema.get("enum").filter(|value| is_true(value)).filter(|_| name == "STRING")
        {
            next(self);
            self.push("enum:");
            self.value(choices, depth);
        }
        let items = schema.get("items").filter(|items| matches!(items, Owned::Map(_)));
        if let Some(items) = items.filter(|value| is_true(value)).filter(|_| name == "ARRAY") {
            next(self);
            self.push("items:{");
            self.items(items, depth);
            self.push("}");
        }
        if schema.get("nullable").is_some_and(is_true) {
            next(self);
            self.push("nullable:true");
        }
        if name == "OBJECT" {
            let own = schema.get("properties").filter(|own| matches!(own, Owned::Map(_)));
            next(self);
            self.push("properties:{");
            self.properties(own.or(Some(schema)), own.is_none(), depth + 1);
            self.push("}");
            if let Some(required) = schema.get("required").filter(|value| is_true(value)) {
                next(self);
                self.required(required);
            }
        }
        next(self);
        self.push("type:");
        self.quoted(&name);
    }

    /// The schema of the items of a list.
    fn items(&mut self, items: &Owned, depth: usize) {
        let members = sorted(Some(items)).into_iter();
        let members = members.filter(|(_, value)| !matches!(value, Owned::Null));
        for (at, (key, value)) in members.enumerate() {
            self.push(if at > 0 { "," } else { "" });
            match key {
                "properties" => {
                    self.push("properties:{");
                    self.properties(Some(value), false, depth + 1);
                    self.push("}");
                }
                "required" => self.required(value),
                "type" => {
                    self.push("type:");
                    match value {
                        Owned::List(names) => {
                            let upper = |name: &Owned| match name {
                                Owned::Text(name) => Owned::Text(name.to_uppercase()),
                                other => other.clone(),
                            };
                            self.value(&Owned::List(names.iter().map(upper).collect()), depth);
                        }
                        _ => self.quoted(&type_of(items)),
                    }
                }
                key => {
                    self.push(key);
                    self.push(":");
                    self.value(value, depth);
                }
            }
        }
    }

    /// A value whose keys are quoted.
    fn value(&mut self, value: &Owned, depth: usize) {
        match value.view() {
            _ if depth > MAX_WRITE_DEPTH => {}
            View::Text(text) => self.quoted(text),
            View::Bool(value) => self.push(if value { "true" } else { "false" }),
            View::Number(text) => self.push(&text),
            View::List(items) => {
                self.push("[");
                for (at, item) in items.iter().enumerate() {
                    self.push(if at > 0 { "," } else { "" });
                    self.value(item, depth + 1);
                }
                self.push("]");
            }
            View::Map(_) => {
                self.push("{");
                for (at, (key, value)) in sorted(Some(value)).into_iter().enumerate() {
                    self.push(if at > 0 { "," } else { "" });
                    self.quoted(key);
                    self.push(":");
                    self.value(value, depth + 1);
                }
                self.push("}");
            }
            _ => self.push("null"),
        }
    }
}
