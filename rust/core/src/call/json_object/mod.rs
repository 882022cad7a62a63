//! A call as a JSON object, `{"name": "f", "parameters": {…}}`: its keys, and the scanner that reads it.
//!
//! ```text
//! {"name": "f", "arguments": {"a": 1}}    f, {"a": 1}
//! {"f": {"a": 1}}                         the same with `arguments = "{name}"`
//! {"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
//!                                         the same with `within = "function"`
//! ```

mod scanner;

use crate::error::{Checked, wrong};
use crate::word::is_word;
pub(crate) use scanner::{CallScanner, Step};

/// The keys of a `[call.X]` table that declare this shape.
pub(crate) const KEYS: &[&str] = &["object", "several"];

/// The names of members.
const MEMBERS: [(&str, Member); 3] =
    [("name", Member::Name), ("arguments", Member::Arguments), ("id", Member::Id)];

/// The key of the arguments in an object whose only key is the name: `{"f": {…}}`.
const BY_NAME: &str = "{name}";

/// Reads `object = { name = …, arguments = …, id = … }`, whose members are written in the order of the table, and
/// `several`.
pub(crate) fn parse(key: &str, table: &toml::Table) -> Checked<Option<ObjectSpec>> {
    let several = match table.get("several") {
        None => false,
        Some(toml::Value::Boolean(several)) => *several,
        Some(_) => return wrong(format!("{key}.several"), "is not a boolean, expected one"),
    };
    let object = match table.get("object") {
        None if several => {
            let problem = "is given, expected it beside `object` and between control tokens only";
            return wrong(format!("{key}.several"), problem);
        }
        None => return Ok(None),
        Some(toml::Value::Table(object)) => object,
        Some(_) => return wrong(format!("{key}.object"), "is not a table, expected the members"),
    };
    let key = format!("{key}.object");
    if let Some(spec) = by_name(&key, object, several)? {
        return Ok(Some(spec));
    }
    let mut members: Vec<(Member, Vec<String>)> = Vec::new();
    let within = within(&key, object)?;
    for (name, value) in object.iter().filter(|(name, _)| *name != "within") {
        let key = format!("{key}.{name}");
        let Some(words) = words(value) else {
            return wrong(key, "is neither a string nor a list of strings, expected one of them");
        };
        if let Some(word) = words.iter().find(|word| !is_word(word)) {
            let problem = format!("has the key {word:?}, expected letters, digits and `_.:-` only");
            return wrong(key, problem);
        }
        let Some(&(_, member)) = MEMBERS.iter().find(|(known, _)| known == name) else {
            return wrong(key, "is unknown, expected `name`, `arguments` or `id`");
        };
        if words.is_empty() {
            return wrong(key, "has no key, expected one or more");
        }
        let is_taken = |word| members.iter().any(|(_, known)| known.contains(word));
        if words.iter().any(is_taken) {
            return wrong(key, "has a key of another member, expected other keys");
        }
        members.push((member, words));
    }
    if within.is_some() {
        // The object within begins at the name.
        let order = [Member::Id, Member::Name, Member::Arguments];
        members.sort_by_key(|(member, _)| order.iter().position(|known| known == member));
    }
    let spec = ObjectSpec { members, several, by_name: false, within };
    if !spec.has(Member::Name) || !spec.has(Member::Arguments) {
        return wrong(key, "lacks a key, expected `name` and `arguments`");
    }
    Ok(Some(spec))
}

/// The key of an object that holds the name and the arguments.
fn within(key: &str, object: &toml::Table) -> Checked<Option<String>> {
    let Some(value) = object.get("within") else { return Ok(None) };
    match value.as_str() {
        Some(word) if is_word(word) && word != "type" => Ok(Some(word.to_owned())),
        _ => {
            let problem = "is no key, expected letters, digits and `_.:-` only, and not `type`";
            wrong(format!("{key}.within"), problem)
        }
    }
}

/// An object whose only key is the name, if `arguments` says so.
fn by_name(key: &str, object: &toml::Table, several: bool) -> Checked<Option<ObjectSpec>> {
    let is_name = |value: &toml::Value| words(value).is_some_and(|words| words == [BY_NAME]);
    if !object.get("arguments").is_some_and(is_name) {
        return Ok(None);
    }
    if let Some(other) = object.keys().find(|name| *name != "arguments") {
        let problem = "stands beside `arguments = \"{name}\"`, expected no other member";
        return wrong(format!("{key}.{other}"), problem);
    }
    let members = vec![(Member::Arguments, vec![BY_NAME.to_owned()])];
    Ok(Some(ObjectSpec { members, several, by_name: true, within: None }))
}

/// A string, or a list of strings.
fn words(value: &toml::Value) -> Option<Vec<String>> {
    match value {
        toml::Value::String(word) => Some(vec![word.clone()]),
        toml::Value::Array(words) => {
            words.iter().map(|word| word.as_str().map(str::to_owned)).collect()
        }
        _ => None,
    }
}

/// A member of a call's JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Member {
    Name,
    Arguments,
    Id,
}

/// The members of a call's JSON object in the order of writing, with their keys: the first is written,
/// all are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectSpec {
    pub(crate) members: Vec<(Member, Vec<String>)>,
    /// Whether several are read where one is written.
    pub(crate) several: bool,
    /// Whether the only key is the name, and its value the arguments.
    pub(crate) by_name: bool,
    /// The key of an object that holds the name and the arguments, after the type `function`.
    pub(crate) within: Option<String>,
}

impl ObjectSpec {
    /// What is written after the brace or the comma before a member's own key.
    pub(crate) fn before(&self, member: Member) -> String {
        let within = self.within.as_ref().filter(|_| member == Member::Name);
        let within = within.map(|key| format!("\"type\": \"function\", \"{key}\": {{"));
        within.unwrap_or_default()
    }

    /// What closes the object.
    pub(crate) fn close(&self) -> &'static str {
        if self.within.is_some() { "}}" } else { "}" }
    }

    /// The member that a key names.
    pub(crate) fn member(&self, key: &str) -> Option<Member> {
        let named = |(_, keys): &&(Member, Vec<String>)| keys.iter().any(|known| known == key);
        self.members.iter().find(named).map(|&(member, _)| member)
    }

    pub(crate) fn has(&self, wanted: Member) -> bool {
        self.members.iter().any(|&(member, _)| member == wanted)
    }
}
