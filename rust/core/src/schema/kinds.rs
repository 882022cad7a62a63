//! The kinds of values in the schemas of tools: compiled once, shared by all streams that read
//! calls of these tools.
//!
//! In: tools as they are given to a model. Out: the kinds of JSON that the value of each parameter may have.
//! Schemas are followed through references and alternatives, with a limited number of steps for each
//! parameter. Where a schema says nothing, every kind is allowed.

use std::ops::{BitAnd, BitOr};
use std::sync::Arc;

use hashbrown::HashMap;
use serde_json::{Map, Value};

use super::values::PYTHON;
use crate::error::{Error, Result};
use crate::json;
use crate::message::{Node, View};
use crate::path::Path;

/// Maximum number of parts of a schema that are visited for one parameter.
const MAX_STEPS: usize = 256;

/// Maximum number of parts of a schema that describe one value.
const MAX_ALTERNATIVES: usize = 16;

/// Number of bytes of a reference that count as one step.
const POINTER_BYTES: usize = 64;

/// Maximum length of a type's name; longer names are ignored.
const MAX_TYPE_BYTES: usize = 256;

/// Kinds of JSON values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kinds(u8);

impl Kinds {
    pub(crate) const STRING: Self = Self(1);
    const INTEGER: Self = Self(1 << 1);
    /// Numbers that are not integers.
    const FRACTION: Self = Self(1 << 2);
    /// All numbers.
    pub(crate) const NUMBER: Self = Self(Self::INTEGER.0 | Self::FRACTION.0);
    pub(crate) const BOOLEAN: Self = Self(1 << 3);
    pub(crate) const NULL: Self = Self(1 << 4);
    pub(crate) const OBJECT: Self = Self(1 << 5);
    pub(crate) const ARRAY: Self = Self(1 << 6);
    /// Beside kinds with strings: `True`, `False` and `None` are no strings, but what Python means by them.
    pub(crate) const WORDS: Self = Self(1 << 7);
    const NONE: Self = Self(0);
    /// All kinds: nothing is known.
    pub(crate) const ANY: Self = Self((1 << 7) - 1);
    /// All kinds except strings.
    pub(crate) const OTHER: Self = Self(Self::ANY.0 & !Self::STRING.0);

    /// The kinds that a text within tags may have, where structures have tags of their own: without a schema, no
    /// `null` and no structure; with one, no structure beside strings.
    pub(crate) fn of_text(self) -> Self {
        if self == Self::ANY {
            Self::STRING | Self::INTEGER | Self::FRACTION | Self::BOOLEAN
        } else if self.meets(Self::STRING) {
            Self(self.0 & !(Self::OBJECT | Self::ARRAY).0)
        } else {
            self
        }
    }

    /// Whether both have a kind in common.
    pub(crate) fn meets(self, other: Self) -> bool {
        self & other != Self::NONE
    }

    /// The kinds of JSON that may begin with a character.
    fn of_first(first: char) -> Self {
        match first {
            '{' => Self::OBJECT,
            '[' => Self::ARRAY,
            't' | 'f' => Self::BOOLEAN,
            'n' => Self::NULL,
            '-' | '0'..='9' => Self::INTEGER | Self::FRACTION,
            _ => Self::NONE,
        }
    }

    /// The kinds of JSON other than a string.
    pub(crate) fn of_json(value: &str) -> Self {
        value.chars().next().map_or(Self::NONE, Self::of_first)
    }

    /// Whether JSON of one of these kinds, except strings, may begin with a character.
    pub(crate) fn may_begin(self, first: char) -> bool {
        self.meets(Self::of_first(first))
    }

    /// Whether JSON other than a string has one of these kinds.
    pub(crate) fn have(self, value: &str) -> bool {
        let kinds = value.chars().next().map_or(Self::NONE, Self::of_first);
        if kinds.meets(Self::INTEGER) {
            let is_integer = is_integer(value);
            return self.meets(if is_integer { Self::INTEGER } else { Self::FRACTION });
        }
        self.meets(kinds)
    }

    /// The JSON for a word of Python or SQL that models write for one of these kinds.
    pub(crate) fn word(self, word: &str) -> Option<&'static str> {
        self.words().find(|(other, _)| *other == word).map(|(_, json)| json)
    }

    /// Whether such a word may begin with this text.
    pub(crate) fn may_be_word(self, begin: &str) -> bool {
        self.words().any(|(other, _)| other.starts_with(begin))
    }

    /// Whether a word is read as JSON though a string is allowed.
    pub(crate) fn is_own_word(self, word: &str) -> bool {
        self.meets(Self::WORDS) && PYTHON.contains(&word)
    }

    /// Where a string is allowed, the word is a string, but where the format's own words are Python's.
    fn words(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        const WORDS: [(&str, &str, Kinds); 8] = [
            ("True", "true", Kinds::BOOLEAN),
            ("TRUE", "true", Kinds::BOOLEAN),
            ("False", "false", Kinds::BOOLEAN),
            ("FALSE", "false", Kinds::BOOLEAN),
            ("None", "null", Kinds::NULL),
            ("Null", "null", Kinds::NULL),
            ("NULL", "null", Kinds::NULL),
            ("nil", "null", Kinds::NULL),
        ];
        let is_meant = move |word: &str, kinds: Self| {
            self.meets(kinds) && (!self.meets(Self::STRING) || self.is_own_word(word))
        };
        WORDS.into_iter().filter(move |word| is_meant(word.0, word.2)).map(|word| (word.0, word.1))
    }

    /// The kinds that a schema names with a word: of JSON Schema, of Python (`list[int]`, `int | None`,
    /// `Optional[str]`), of SQL or of other languages, in any case.
    fn named(word: &str) -> Self {
        if word.len() > MAX_TYPE_BYTES {
            return Self::ANY;
        }
        let word = word.trim().to_ascii_lowercase();
        if let Some((first, rest)) = split_union(&word) {
            return Self::named(first) | Self::named(rest);
        }
        let (word, inner) = word.split_once(['[', '(', '<']).unwrap_or((&word, ""));
        let word = word.rsplit('.').next().unwrap_or(word).trim();
        match word.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "optional" => Self::named(inner.trim_end_matches([']', ')', '>'])) | Self::NULL,
            "string" | "str" | "text" | "varchar" | "char" | "enum" => Self::STRING,
            "integer" | "int" | "uint" | "long" | "short" | "byte" | "unsigned" | "bigint"
            | "smallint" | "tinyint" => Self::INTEGER,
            "number" | "num" | "float" | "double" | "decimal" | "real" => {
                Self::INTEGER | Self::FRACTION
            }
            "boolean" | "bool" => Self::BOOLEAN,
            "null" | "none" | "nonetype" => Self::NULL,
            "object" | "dict" | "map" | "struct" => Self::OBJECT,
            "array" | "arr" | "list" | "tuple" | "set" => Self::ARRAY,
            _ => Self::ANY,
        }
    }
}

/// The alternatives of a type, `int | None`: the first, and the others.
fn split_union(word: &str) -> Option<(&str, &str)> {
    let mut depth = 0usize;
    let bar = word.char_indices().find(|&(_, c)| {
        match c {
            '[' | '(' | '<' => depth += 1,
            ']' | ')' | '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == '|' && depth == 0
    })?;
    Some((&word[..bar.0], &word[bar.0 + 1..]))
}

impl BitOr for Kinds {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Kinds {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// Whether a JSON number has no fraction; in schemas `2.0` is an integer.
fn is_integer(number: &str) -> bool {
    let is_digits = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    is_digits || number.parse::<f64>().is_ok_and(|number| number.fract() == 0.0)
}

/// The kinds of the parameters of one function.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    kinds: HashMap<String, Kinds>,
    /// The kinds of parameters that are not named.
    others: Kinds,
    /// The schema itself, for values within parameters.
    schema: Value,
}

/// The parts of a schema that describe one value, as JSON pointers. Without any, nothing is known of the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parts(Vec<String>);

impl Parts {
    /// The schema itself, which describes all parameters.
    pub(crate) fn all() -> Self {
        Self(vec![String::new()])
    }
}

impl Parameters {
    /// The kinds of one parameter.
    pub(crate) fn kinds(&self, name: &str) -> Kinds {
        self.kinds.get(name).copied().unwrap_or(self.others)
    }

    /// The kinds of the value that parts describe.
    pub(crate) fn kinds_of(&self, parts: &Parts) -> Kinds {
        let all = parts.0.iter().filter_map(|at| self.schema.pointer(at));
        let all = all.map(|part| kinds_of(part, &self.schema)).reduce(Kinds::bitor);
        all.unwrap_or(Kinds::ANY)
    }

    /// The parts that describe a member of an object.
    pub(crate) fn member(&self, object: &Parts, name: &str) -> Parts {
        let key = name.replace('~', "~0").replace('/', "~1");
        self.within(object, |part| {
            let properties = part.get("properties");
            let named =
                properties.and_then(|all| all.get(name)).map(|_| format!("/properties/{key}"));
            let others = part.get("additionalProperties").filter(|others| others.is_object());
            named.or_else(|| others.map(|_| "/additionalProperties".to_owned()))
        })
    }

    /// The parts that describe an item of a list.
    pub(crate) fn item(&self, list: &Parts, index: usize) -> Parts {
        self.within(list, |part| {
            let first = part.get("prefixItems").and_then(|first| first.get(index));
            let others = part.get("items").filter(|others| others.is_object());
            let first = first.map(|_| format!("/prefixItems/{index}"));
            first.or_else(|| others.map(|_| "/items".to_owned()))
        })
    }

    /// The parts within others, their references, and their alternatives.
    fn within(&self, parts: &Parts, find: impl Fn(&Value) -> Option<String>) -> Parts {
        let mut steps = MAX_STEPS;
        let mut open = parts.0.clone();
        let mut found = Vec::new();
        while let Some(at) = open.pop() {
            let Some(part) = self.schema.pointer(&at) else { continue };
            if spend(&mut steps, 1 + at.len() / POINTER_BYTES).is_none() {
                return Parts(Vec::new());
            }
            found.extend(find(part).map(|inner| format!("{at}{inner}")));
            let target = part.get("$ref").and_then(Value::as_str);
            open.extend(target.and_then(|target| target.strip_prefix('#')).map(str::to_owned));
            for alternatives in ["anyOf", "oneOf", "allOf"] {
                let count = part.get(alternatives).and_then(Value::as_array).map_or(0, Vec::len);
                open.extend((0..count).map(|nth| format!("{at}/{alternatives}/{nth}")));
            }
        }
        found.truncate(MAX_ALTERNATIVES);
        Parts(found)
    }
}

/// The types of the arguments of calls, from the schemas of tools. Cheap to clone; streams share
/// it.
///
/// Formats that write arguments without quotes need it: `5` may be a number or a text.
#[derive(Debug, Clone, Default)]
pub struct ToolTypes {
    functions: Arc<HashMap<String, Arc<Parameters>>>,
}

impl ToolTypes {
    /// The names of the functions, in no order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(String::as_str)
    }

    /// Reads tools from a caller's value: a list of functions, bare or as `{"type": "function",
    /// "function": …}`, with `parameters` or `input_schema`; or the JSON text of such a list. Other texts
    /// and other items give no types.
    ///
    /// # Errors
    /// [`Error::Message`] for a value that is not a list of dicts, or cannot be JSON.
    pub fn read<N: Node>(tools: &N) -> Result<Self> {
        let path = Path::Argument("tools");
        let read = |text: &str| serde_json::from_str(text).unwrap_or_default();
        let tools: Vec<Value> = match tools.view() {
            View::Null => return Ok(Self::default()),
            View::Text(text) => read(text),
            View::List(tools) => {
                json::write_list(&tools, path, &mut String::new())?;
                let odd = tools.iter().position(|tool| !matches!(tool.view(), View::Map(_)));
                if let Some(at) = odd {
                    return Err(Error::message(path.item(at), "is no dict"));
                }
                // Each tool separately: a tool that is nested too deep gives no types.
                let mut all = Vec::with_capacity(tools.len());
                for tool in &tools {
                    let mut text = String::new();
                    json::write_list(std::slice::from_ref(tool), path, &mut text)?;
                    all.extend(read(&text));
                }
                all
            }
            _ => return Err(Error::message(path, "are no list of dicts, and no string")),
        };
        let functions = tools.iter().filter_map(|tool| {
            let function = tool.get("function").filter(|f| f.is_object()).unwrap_or(tool);
            let name = function.get("name")?.as_str()?.to_owned();
            let schema = function.get("parameters").or_else(|| function.get("input_schema"));
            Some((name, Arc::new(parameters(schema.unwrap_or(&Value::Null)))))
        });
        Ok(Self { functions: Arc::new(functions.collect()) })
    }

    /// Whether there are no tools.
    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Whether a function is one of the tools.
    pub(crate) fn has(&self, function: &str) -> bool {
        self.functions.contains_key(function)
    }

    /// The types of a function's arguments.
    pub(crate) fn of(&self, function: &str) -> Option<Arc<Parameters>> {
        self.functions.get(function).cloned()
    }
}

fn parameters(whole: &Value) -> Parameters {
    let mut steps = MAX_STEPS;
    let schema = resolved(whole, whole, &mut steps).unwrap_or(whole);
    let kinds_of = |part: &Value| kinds(part, schema, &mut { MAX_STEPS });
    let named = schema.get("properties").and_then(Value::as_object);
    let named = named.into_iter().flatten();
    Parameters {
        kinds: named.map(|(name, part)| (name.clone(), kinds_of(part))).collect(),
        others: schema.get("additionalProperties").map_or(Kinds::ANY, kinds_of),
        schema: whole.clone(),
    }
}

/// The kinds that a part of a schema allows.
pub(crate) fn kinds_of(part: &Value, schema: &Value) -> Kinds {
    kinds(part, schema, &mut { MAX_STEPS })
}

/// The same, with a budget of steps.
fn kinds(part: &Value, schema: &Value, steps: &mut usize) -> Kinds {
    let Some(keys) = part.as_object() else { return Kinds::ANY };
    if spend(steps, 1).is_none() {
        return Kinds::ANY;
    }
    let mut found = named(keys) & valued(keys);
    for alternatives in ["anyOf", "oneOf"] {
        if let Some(parts) = keys.get(alternatives).and_then(Value::as_array) {
            let mut any = Kinds::NONE;
            for part in parts {
                any = any | kinds(part, schema, steps);
                if *steps == 0 {
                    return Kinds::ANY;
                }
            }
            found = found & any;
        }
    }
    for part in keys.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        found = found & kinds(part, schema, steps);
        if *steps == 0 {
            return Kinds::ANY;
        }
    }
    if keys.contains_key("$ref")
        && let Some(part) = resolved(part, schema, steps)
    {
        found = found & kinds(part, schema, steps);
    }
    if keys.get("nullable") == Some(&Value::Bool(true)) {
        found = found | Kinds::NULL;
    }
    // A schema that allows no kind is ignored.
    if found == Kinds::NONE { Kinds::ANY } else { found }
}

/// The kinds that `type` names.
fn named(keys: &Map<String, Value>) -> Kinds {
    let kinds = |word: &Value| word.as_str().map_or(Kinds::ANY, Kinds::named);
    match keys.get("type") {
        None => Kinds::ANY,
        Some(Value::Array(words)) => words.iter().map(kinds).fold(Kinds::NONE, Kinds::bitor),
        Some(word) => kinds(word),
    }
}

/// The kinds of the values that `const` and `enum` list.
fn valued(keys: &Map<String, Value>) -> Kinds {
    let kinds = |value: &Value| match value {
        Value::String(_) => Kinds::STRING,
        Value::Object(_) => Kinds::OBJECT,
        Value::Array(_) => Kinds::ARRAY,
        Value::Bool(_) => Kinds::BOOLEAN,
        Value::Null => Kinds::NULL,
        Value::Number(number) if is_integer(&number.to_string()) => Kinds::INTEGER,
        Value::Number(_) => Kinds::FRACTION,
    };
    let constant = keys.get("const").map_or(Kinds::ANY, kinds);
    let listed = keys.get("enum").and_then(Value::as_array);
    let listed = listed
        .map_or(Kinds::ANY, |values| values.iter().map(kinds).fold(Kinds::NONE, Kinds::bitor));
    constant & listed
}

/// The target of a part's references; the part itself without a reference.
fn resolved<'s>(mut part: &'s Value, schema: &'s Value, steps: &mut usize) -> Option<&'s Value> {
    while let Some(reference) = part.get("$ref") {
        let pointer = reference.as_str()?.strip_prefix('#')?;
        spend(steps, 1 + pointer.len() / POINTER_BYTES)?;
        part = schema.pointer(pointer)?;
    }
    Some(part)
}

/// Takes steps from the budget; with too few left, the budget becomes zero.
fn spend(steps: &mut usize, count: usize) -> Option<()> {
    let left = steps.checked_sub(count);
    *steps = left.unwrap_or(0);
    left.map(|_| ())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kinds_of(schema: &Value) -> Kinds {
        let root = json!({
            "properties": {"x": schema},
            "$defs": {
                "unit": {"enum": ["C", "F"]},
                "loop": {"$ref": "#/$defs/loop"},
                "wide": {"anyOf": [{"$ref": "#/$defs/deep"}, {"$ref": "#/$defs/deep"}]},
                "deep": {"anyOf": [{"$ref": "#/$defs/wide"}, {"$ref": "#/$defs/wide"}]},
            },
        });
        parameters(&root).kinds("x")
    }

    #[test]
    fn schemas_say_kinds() {
        for (schema, kinds) in [
            (json!({}), Kinds::ANY),
            (json!(true), Kinds::ANY),
            (json!({"type": "string"}), Kinds::STRING),
            (json!({"type": "integer"}), Kinds::INTEGER),
            (json!({"type": "number"}), Kinds::INTEGER | Kinds::FRACTION),
            (json!({"type": ["string", "null"]}), Kinds::STRING | Kinds::NULL),
            (json!({"type": "varchar"}), Kinds::STRING),
            (json!({"type": "currency"}), Kinds::ANY),
            (json!({"type": "INT64"}), Kinds::INTEGER),
            (json!({"type": "list[dict[str, int | None]]"}), Kinds::ARRAY),
            (json!({"type": "Optional[str]"}), Kinds::STRING | Kinds::NULL),
            (json!({"type": "int | None"}), Kinds::INTEGER | Kinds::NULL),
            (json!({"type": "typing.List"}), Kinds::ARRAY),
            (json!({"type": "Dict<String, int>"}), Kinds::OBJECT),
            (
                json!({"type": ["double", "NoneType"]}),
                Kinds::INTEGER | Kinds::FRACTION | Kinds::NULL,
            ),
            (json!({"type": []}), Kinds::ANY),
            (json!({"enum": ["a", 1]}), Kinds::STRING | Kinds::INTEGER),
            (json!({"const": 1.5}), Kinds::FRACTION),
            (json!({"type": "string", "nullable": true}), Kinds::STRING | Kinds::NULL),
            (
                json!({"anyOf": [{"type": "boolean"}, {"type": "null"}]}),
                Kinds::BOOLEAN | Kinds::NULL,
            ),
            (json!({"anyOf": [{"type": "boolean"}, {}]}), Kinds::ANY),
            (json!({"allOf": [{"type": ["array", "object"]}, {"type": "object"}]}), Kinds::OBJECT),
            (json!({"$ref": "#/$defs/unit"}), Kinds::STRING),
            (json!({"$ref": "#/$defs/none"}), Kinds::ANY),
            (json!({"$ref": "#/$defs/loop"}), Kinds::ANY),
            (json!({"$ref": "#/$defs/wide"}), Kinds::ANY),
            (json!({"$ref": "https://example.com"}), Kinds::ANY),
        ] {
            assert_eq!(kinds_of(&schema), kinds, "{schema}");
        }
    }

    #[test]
    fn tools_are_read_in_any_of_their_shapes() {
        let schema = json!({"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}});
        let tools = json!([
            {"type": "function", "function": {"name": "f", "parameters": schema}},
            {"name": "g", "input_schema": schema},
            {"name": "h"},
            {},
        ]);
        for tools in [tools.clone(), Value::String(tools.to_string())] {
            let types = ToolTypes::read(&tools).unwrap();
            for name in ["f", "g"] {
                let parameters = types.of(name).unwrap();
                assert_eq!(parameters.kinds("a"), Kinds::STRING);
                assert_eq!(parameters.kinds("b"), Kinds::INTEGER);
            }
            assert_eq!(types.of("h").unwrap().kinds("a"), Kinds::ANY);
            assert_eq!(types.of("none"), None);
        }
        for nothing in [json!(null), json!([]), json!("Use f(a)."), json!("{}")] {
            assert!(ToolTypes::read(&nothing).unwrap().functions.is_empty(), "{nothing}");
        }
        for wrong in [json!(1), json!({}), json!([[]]), json!(["f"])] {
            assert!(ToolTypes::read(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn integers_are_told_from_fractions() {
        for (number, expected) in [
            ("1", true),
            ("-7", true),
            ("1.0", true),
            ("1e3", true),
            ("1.5", false),
            ("1e-3", false),
            ("1e999", false),
        ] {
            assert_eq!(is_integer(number), expected, "{number}");
            assert_eq!(Kinds::INTEGER.have(number), expected, "{number}");
        }
    }
}
