//! What a rendering took for granted of a caller's texts.
//!
//! A rendering in which no operation looks ([`super::watch`]) writes the same for every conversation of its shape in
//! which none looks either. [`Premises`] are conditions under which none does, for conversations that differ in their
//! free texts alone: contents and reasoning of messages. `'<b>' in text` was false: no free text may hold `<b>`.
//!
//! What is not listed here is open: such a rendering says nothing of other texts.

use std::cell::{Cell, RefCell};

use super::ast::Comparison;
use super::functions::Function;
use super::given::Named;
use super::lexer::is_space;
use super::paths::Paths;
use super::text::Text;
use super::value::Value;
use aho_corasick::AhoCorasick;

/// Values and runs of texts that are searched for free texts at most, in one rendering.
const MAX_SEARCHED: usize = 100_000;

/// Strings that are kept at most, and their bytes.
const MAX_ABSENT: usize = 64;
const MAX_BYTES: usize = 1 << 12;

/// What holds of each free text of a conversation. Further, none is white space alone.
#[derive(Debug, Clone)]
pub(crate) struct Premises {
    /// It holds none of these.
    absent: Vec<String>,
    /// Searches for these, once many texts are asked about.
    search: Option<AhoCorasick>,
    /// What it does not begin with.
    first: Chars,
    /// What it does not end with.
    last: Chars,
}

/// Characters that a text does not begin with, or not end with.
#[derive(Debug, Clone, Default)]
struct Chars {
    chars: String,
    /// Whether white space is among them.
    has_space: bool,
}

impl Chars {
    fn has(&self, c: char) -> bool {
        self.has_space && is_space(c) || self.chars.contains(c)
    }

    fn add(&mut self, given: &[Value]) {
        match given {
            [Value::Str(chars)] => self.chars.push_str(chars.as_str()),
            _ => self.has_space = true,
        }
    }
}

impl Premises {
    /// Whether they hold of a text.
    pub(crate) fn hold(&self, text: &str) -> bool {
        !text.chars().all(is_space)
            && !text.chars().next().is_some_and(|c| self.first.has(c))
            && !text.chars().next_back().is_some_and(|c| self.last.has(c))
            && !match &self.search {
                Some(search) => search.is_match(text),
                None => self.absent.iter().any(|absent| text.contains(absent)),
            }
    }

    /// These, for many texts.
    pub(crate) fn prepared(mut self) -> Self {
        if !self.absent.is_empty() {
            self.search = AhoCorasick::new(&self.absent).ok();
        }
        self
    }

    /// These, and that no text begins with one of `chars`.
    pub(crate) fn without_first(mut self, chars: &[char]) -> Self {
        self.first.chars.extend(chars);
        self
    }
}

/// Takes down premises during a rendering.
#[derive(Debug)]
pub(super) struct Notes {
    /// Of each path, whether a free text is there.
    is_free: Vec<bool>,
    absent: RefCell<Vec<String>>,
    first: RefCell<Chars>,
    last: RefCell<Chars>,
    /// Whether the rendering relied on something else.
    is_open: Cell<bool>,
    searched: Cell<usize>,
}

impl Notes {
    pub(super) fn new(paths: &Paths) -> Self {
        Self {
            is_free: (0..paths.len() as u32).map(|path| paths.is_free(path)).collect(),
            absent: RefCell::default(),
            first: RefCell::default(),
            last: RefCell::default(),
            is_open: Cell::new(false),
            searched: Cell::new(0),
        }
    }

    /// What was taken down; none if the rendering relied on something else.
    pub(super) fn finish(self) -> Option<Premises> {
        let absent = self.absent.into_inner();
        let is_small = absent.len() <= MAX_ABSENT
            && absent.iter().map(String::len).sum::<usize>() <= MAX_BYTES;
        if self.is_open.get() || !is_small {
            return None;
        }
        let (first, last) = (self.first.into_inner(), self.last.into_inner());
        Some(Premises { absent, search: None, first, last })
    }

    fn open(&self) {
        self.is_open.set(true);
    }

    /// Whether nothing more is to be taken down.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.get()
    }

    /// Counts values that are searched; where they are too many, the rendering is open.
    fn search(&self, count: usize) {
        self.searched.set(self.searched.get().saturating_add(count));
        self.open_if(self.searched.get() > MAX_SEARCHED);
    }

    fn is_free_text(&self, text: &Text) -> bool {
        self.search(text.run_count());
        let is_free = |path: u32| self.is_free.get(path as usize).copied().unwrap_or(true);
        text.contents().any(|origin| origin.path().is_some_and(is_free))
    }

    /// Whether a value is or holds a free text.
    fn holds(&self, value: &Value) -> bool {
        self.search(1);
        if self.is_open() {
            return false;
        }
        match value {
            Value::Str(text) => self.is_free_text(text),
            Value::List(list) => list.items.iter().any(|item| self.holds(item)),
            Value::Dict(dict) => {
                dict.members.iter().any(|(key, value)| self.holds(key) || self.holds(value))
            }
            Value::Namespace(attributes) => {
                let attributes = attributes.borrow();
                attributes.members.iter().any(|(_, value)| self.holds(value))
            }
            Value::Generator(of) => of.find_map(|item| self.holds(item).then_some(())).is_some(),
            Value::Int(_, origin) | Value::Long(_, origin) | Value::Float(_, origin) => {
                let path = origin.path().filter(|_| origin.is_content());
                path.is_some_and(|path| self.is_free.get(path as usize).copied().unwrap_or(true))
            }
            Value::Undefined(_)
            | Value::None
            | Value::Bool(_)
            | Value::Loop(_)
            | Value::Callable(_) => false,
        }
    }

    fn any<'a>(&self, values: impl IntoIterator<Item = &'a Value>) -> bool {
        values.into_iter().any(|value| self.holds(value))
    }

    fn open_if(&self, is_open: bool) {
        if is_open {
            self.open();
        }
    }

    /// A text was searched for a part, which was not found.
    fn searched_for(&self, text: &Text, part: &Value) {
        match part {
            Value::Str(part)
                if !self.is_free_text(part) && text.is_part_of_one() && !part.is_empty() =>
            {
                let mut absent = self.absent.borrow_mut();
                if absent.len() <= MAX_ABSENT && absent.iter().all(|known| *known != *part.as_str())
                {
                    absent.push(part.as_str().to_owned());
                }
            }
            _ => self.open(),
        }
    }

    /// Whether a value is no text, and holds a free text: shown, it is escaped.
    fn is_shown(&self, value: &Value) -> bool {
        let is_one =
            matches!(value, Value::Str(_) | Value::Int(..) | Value::Long(..) | Value::Float(..));
        !is_one && self.holds(value)
    }

    /// A value becomes a text.
    pub(super) fn shown(&self, value: &Value) {
        self.open_if(self.is_shown(value));
    }

    fn equality(&self, one: &Value, other: &Value) {
        match (one, other) {
            (Value::Str(one), Value::Str(other)) => self.equal_texts(one, other),
            (Value::List(_), Value::List(_)) | (Value::Dict(_), Value::Dict(_)) => {
                self.open_if(self.holds(one) || self.holds(other));
            }
            // Values of two kinds differ, and a length is above 0 whatever the text is.
            _ => {}
        }
    }

    /// `one == other`
    pub(super) fn equal_texts(&self, one: &Text, other: &Text) {
        match (self.is_free_text(one), self.is_free_text(other)) {
            (false, false) => {}
            (true, true) => self.open_if(!one.is_same(other)),
            // A free text is not empty, and nothing that is made of it is.
            (true, false) if other.is_empty() => {}
            (false, true) if one.is_empty() => {}
            (true, false) => self.searched_for(one, &Value::Str(other.clone())),
            (false, true) => self.searched_for(other, &Value::Str(one.clone())),
        }
    }

    fn membership(&self, item: &Value, container: &Value) {
        match (item, container) {
            (part, Value::Str(whole)) if self.is_free_text(whole) => self.searched_for(whole, part),
            (item, Value::List(list)) => {
                list.items.iter().for_each(|known| self.equality(item, known));
            }
            (key, Value::Dict(dict)) => self.open_if(self.is_key(key, dict.members.iter())),
            (item, container) => self.open_if(self.holds(item) || self.holds(container)),
        }
    }

    /// Whether a key, or one of those that it may be equal to, is a free text.
    fn is_key<'a>(&self, key: &Value, members: impl Iterator<Item = &'a (Value, Value)>) -> bool {
        self.holds(key) || self.any(members.map(|(key, _)| key))
    }

    /// `left < right` and its kind.
    pub(super) fn comparison(&self, left: &Value, sign: Comparison, right: &Value) {
        match sign {
            Comparison::Equal | Comparison::NotEqual => self.equality(left, right),
            Comparison::In | Comparison::NotIn => self.membership(left, right),
            // A comparison of texts looks; a length is above 0.
            _ => {}
        }
    }

    /// `value is name(given)`
    pub(super) fn test(&self, name: &str, value: &Value, given: &[Value]) {
        match (name, given) {
            (
                "defined" | "undefined" | "none" | "boolean" | "true" | "false" | "integer"
                | "float" | "number" | "string" | "mapping" | "iterable" | "sequence" | "callable",
                _,
            ) => {}
            ("eq" | "equalto" | "==" | "ne", [other]) => self.equality(value, other),
            ("in", [container]) => self.membership(value, container),
            _ => self.open_if(self.holds(value) || self.any(given)),
        }
    }

    /// `object[index]`
    pub(super) fn item(&self, object: &Value, index: &Value) {
        match object {
            Value::Dict(dict) => self.open_if(self.is_key(index, dict.members.iter())),
            _ => self.open_if(self.holds(index)),
        }
    }

    /// A dict that was made of members.
    pub(super) fn dict(&self, made: &Value) {
        if let Value::Dict(dict) = made {
            self.open_if(self.any(dict.members.iter().map(|(key, _)| key)));
        }
    }

    /// A function that every template has.
    pub(super) fn function(&self, name: Function, given: &[Value]) {
        match name {
            // What it gives at the time is the caller's to compare.
            Function::StrftimeNow => self.open_if(self.any(given)),
            Function::Dict | Function::Namespace => given.iter().for_each(|made| self.dict(made)),
            Function::Range | Function::Cycler | Function::Joiner | Function::RaiseException => {}
        }
    }

    /// A filter.
    pub(super) fn filter(&self, name: &str, input: &Value, given: &[Value], named: &Named) {
        match name {
            // What is marked escapes what it is joined with.
            "safe" | "escape" | "e" | "forceescape" => self.open(),
            // What they apply is taken down by itself.
            "default" | "d" | "items" | "list" | "first" | "last" | "reverse" | "batch"
            | "slice" | "map" | "select" | "reject" | "selectattr" | "rejectattr" => {}
            // The length of several texts is the first one's.
            "length" | "count" => self.open_if(match input {
                Value::Str(text) => self.is_free_text(text) && !text.is_part_of_one(),
                _ => false,
            }),
            "string" => self.shown(input),
            "join" => self.joined(input, given),
            "replace" if !matches!(given, [Value::Str(_), Value::Str(_), ..]) => {
                self.open_if(self.holds(input) || self.any(given));
            }
            "trim" | "replace" if named.is_empty() && matches!(input, Value::Str(_)) => {
                self.method(if name == "trim" { "strip" } else { name }, input, given, named);
            }
            _ => {
                let named = named.iter().map(|(_, value)| value);
                self.open_if(self.holds(input) || self.any(given) || self.any(named));
            }
        }
    }

    fn joined(&self, list: &Value, given: &[Value]) {
        match list {
            Value::List(list) => {
                let is_shown = |item: &Value| self.is_shown(item);
                self.open_if(list.items.iter().chain(given.iter().skip(1)).any(is_shown));
            }
            other => self.open_if(self.holds(other) || self.any(given)),
        }
    }

    /// A method.
    pub(super) fn method(&self, name: &str, object: &Value, given: &[Value], named: &Named) {
        if !named.is_empty() {
            return self.open();
        }
        match (object, name, given) {
            (Value::Str(_), "join", [list, ..]) => self.joined(list, given),
            (Value::Dict(_), "items" | "keys" | "values" | "copy", _)
            | (Value::List(_), "copy", _)
            | (Value::Loop(_), "cycle", _) => {}
            (Value::Dict(dict), "get", [key, ..]) => {
                self.open_if(self.is_key(key, dict.members.iter()));
            }
            (Value::Str(text), _, _) if !self.is_free_text(text) => match (name, given) {
                ("replace", [old, new, ..]) => {
                    self.open_if(self.holds(old) || self.is_shown(new));
                }
                _ => self.open_if(self.any(given)),
            },
            (
                Value::Str(text),
                "strip" | "lstrip" | "rstrip",
                [] | [Value::None | Value::Str(_)],
            ) if text.is_unchanged() && !self.any(given) => {
                if name != "rstrip" {
                    self.first.borrow_mut().add(given);
                }
                if name != "lstrip" {
                    self.last.borrow_mut().add(given);
                }
            }
            (
                Value::Str(text),
                "replace" | "split" | "rsplit" | "partition" | "rpartition" | "removeprefix"
                | "removesuffix" | "startswith" | "endswith" | "find" | "rfind",
                [part, more @ ..],
            ) if !more.iter().any(|more| self.is_shown(more)) => match part {
                Value::List(parts) if matches!(name, "startswith" | "endswith") => {
                    parts.items.iter().for_each(|part| self.searched_for(text, part));
                }
                part => self.searched_for(text, part),
            },
            _ => self.open_if(self.holds(object) || self.any(given)),
        }
    }
}
