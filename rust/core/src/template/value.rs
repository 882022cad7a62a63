//! The values of a template, with Python's truth, equality, order and text.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fmt::Write;
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashMap;

use super::error::Problem;
use super::machine::{Callable, Loop};
use super::text::{Builder, Origin, Text};

pub(super) type Outcome<T> = Result<T, Problem>;

/// Attributes of a namespace, by name.
pub(super) type Attributes = Vec<(Text, Value)>;

#[derive(Clone)]
pub(super) enum Value {
    /// With what is missing, which its use is an error about.
    Undefined(Missing),
    None,
    Bool(bool),
    Int(i64, Origin),
    Float(f64, Origin),
    Str(Text),
    List(Rc<List>),
    Dict(Rc<Dict>),
    /// `namespace(…)`
    Namespace(Rc<RefCell<Attributes>>),
    /// What `map`, `select` and their kind give: its items can be taken once.
    Generator(Rc<RefCell<VecDeque<Value>>>),
    Loop(Rc<Loop>),
    Callable(Rc<Callable>),
}

/// Why a value is undefined; most are never asked.
#[derive(Debug, Clone)]
pub(super) enum Missing {
    Variable(Arc<str>),
    /// The kind of the object, and the name.
    Member(&'static str, Arc<str>),
    Other(Arc<str>),
    /// The content of a message that is None: None but for its text, which is empty.
    Null,
}

impl Missing {
    pub(super) fn problem(&self) -> String {
        match self {
            Self::Variable(name) => format!("`{name}` is undefined"),
            Self::Member(kind, name) => {
                let name = chatcodec_vocab::excerpt(name, 80);
                format!("`{kind}` has no attribute or member `{name}`")
            }
            Self::Other(problem) => (**problem).to_owned(),
            Self::Null => "the content is None".into(),
        }
    }
}

/// The items of what can be iterated over: those of a list are shared.
pub(super) enum Items {
    Shared(Rc<List>),
    Own(Vec<Value>),
}

impl std::ops::Deref for Items {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        match self {
            Self::Shared(list) => &list.items,
            Self::Own(items) => items,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListKind {
    List,
    Tuple,
    Range,
    Keys,
    Values,
    Items,
}

pub(super) struct List {
    pub(super) items: Vec<Value>,
    pub(super) kind: ListKind,
    /// The path, if the list is the caller's.
    pub(super) origin: Origin,
}

/// Members in order; of two with one key the later value stays.
#[derive(Clone)]
pub(super) struct Dict {
    pub(super) members: Vec<(Value, Value)>,
    /// Places of the members whose keys are strings, in a dict of many.
    index: Option<HashMap<Arc<str>, usize>>,
    pub(super) origin: Origin,
    /// Whether a key is a name that the caller chose.
    pub(super) has_content: bool,
    /// Which message it is, if it is one.
    pub(super) message: Option<u32>,
}

/// From so many members on, a dict has an index.
const INDEXED: usize = 9;

impl Dict {
    pub(super) fn new(members: impl IntoIterator<Item = (Value, Value)>, origin: Origin) -> Self {
        let mut dict = Self::with_capacity(0, origin);
        for (key, value) in members {
            dict.insert(key, value);
        }
        dict
    }

    /// A dict with room for so many members.
    pub(super) fn with_capacity(members: usize, origin: Origin) -> Self {
        let members = Vec::with_capacity(members);
        Self { members, index: None, origin, has_content: false, message: None }
    }

    fn place(&self, key: &Value) -> Option<usize> {
        match (key, &self.index) {
            (Value::Str(text), Some(index)) => index.get(text.as_str()).copied(),
            _ => self.members.iter().position(|(known, _)| known.equals(key)),
        }
    }

    pub(super) fn insert(&mut self, key: Value, value: Value) {
        if let Some(at) = self.place(&key) {
            self.members[at].1 = value;
            return;
        }
        self.has_content |= matches!(&key, Value::Str(text) if text.content().is_some());
        if let (Value::Str(text), Some(index)) = (&key, &mut self.index) {
            index.insert(text.as_str().into(), self.members.len());
        }
        self.members.push((key, value));
        if self.members.len() == INDEXED {
            let keys = self.members.iter().enumerate();
            let keys = keys.filter_map(|(at, (key, _))| match key {
                Value::Str(text) => Some((text.as_str().into(), at)),
                _ => None,
            });
            self.index = Some(keys.collect());
        }
    }

    pub(super) fn get(&self, key: &Value) -> Option<&Value> {
        self.member(key).map(|(_, value)| value)
    }

    /// The member of a key, with the key as it was inserted.
    pub(super) fn member(&self, key: &Value) -> Option<&(Value, Value)> {
        self.members.get(self.place(key)?)
    }

    pub(super) fn get_str(&self, key: &str) -> Option<&Value> {
        self.member_of(key).map(|(_, value)| value)
    }

    /// The member of a key that is this string.
    pub(super) fn member_of(&self, key: &str) -> Option<&(Value, Value)> {
        if let Some(index) = &self.index {
            return self.members.get(*index.get(key)?);
        }
        let is_key = |known: &Value| matches!(known, Value::Str(text) if text.as_str() == key);
        self.members.iter().find(|(known, _)| is_key(known))
    }
}

impl Value {
    pub(super) fn str(text: &'static str) -> Self {
        Self::Str(Text::template(text))
    }

    pub(super) fn int(value: i64) -> Self {
        Self::Int(value, Origin::TEMPLATE)
    }

    /// A number of items.
    pub(super) fn size(size: usize) -> Self {
        Self::counted(size, Origin::TEMPLATE)
    }

    /// A number of what a value of this origin has: characters, items, places.
    pub(super) fn counted(size: usize, origin: Origin) -> Self {
        Self::Int(i64::try_from(size).unwrap_or(i64::MAX), origin)
    }

    pub(super) fn list(items: Vec<Self>) -> Self {
        Self::of_kind(items, ListKind::List)
    }

    pub(super) fn tuple(items: Vec<Self>) -> Self {
        Self::of_kind(items, ListKind::Tuple)
    }

    pub(super) fn of_kind(items: Vec<Self>, kind: ListKind) -> Self {
        Self::List(Rc::new(List { items, kind, origin: Origin::TEMPLATE }))
    }

    pub(super) fn generator(items: Vec<Self>) -> Self {
        Self::Generator(Rc::new(RefCell::new(items.into())))
    }

    pub(super) fn undefined(problem: impl Into<Arc<str>>) -> Self {
        Self::Undefined(Missing::Other(problem.into()))
    }

    /// The problem of using an undefined value.
    pub(super) fn check(&self) -> Outcome<()> {
        match self {
            Self::Undefined(missing) => Err(Problem::value(missing.problem())),
            _ => Ok(()),
        }
    }

    /// Python's name of the type.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::None | Self::Undefined(Missing::Null) => "NoneType",
            Self::Undefined(_) => "Undefined",
            Self::Bool(_) => "bool",
            Self::Int(..) => "int",
            Self::Float(..) => "float",
            Self::Str(_) => "str",
            Self::List(list) => match list.kind {
                ListKind::List => "list",
                ListKind::Tuple => "tuple",
                ListKind::Range => "range",
                ListKind::Keys => "dict_keys",
                ListKind::Values => "dict_values",
                ListKind::Items => "dict_items",
            },
            Self::Dict(_) => "dict",
            Self::Namespace(_) => "Namespace",
            Self::Generator(_) => "generator",
            Self::Loop(_) => "LoopContext",
            Self::Callable(_) => "function",
        }
    }

    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Undefined(_) | Self::None => false,
            Self::Bool(value) => *value,
            Self::Int(value, _) => *value != 0,
            Self::Float(value, _) => *value != 0.0,
            Self::Str(text) => !text.is_empty(),
            Self::List(list) => !list.items.is_empty(),
            Self::Dict(dict) => !dict.members.is_empty(),
            Self::Namespace(_) | Self::Generator(_) | Self::Loop(_) | Self::Callable(_) => true,
        }
    }

    /// The value as a number: booleans are 0 and 1.
    pub(super) fn number(&self) -> Option<Number> {
        match self {
            Self::Bool(value) => Some(Number::Int(i64::from(*value))),
            Self::Int(value, _) => Some(Number::Int(*value)),
            Self::Float(value, _) => Some(Number::Float(*value)),
            _ => None,
        }
    }

    /// Whether it is None.
    pub(super) fn is_none(&self) -> bool {
        matches!(self, Self::None | Self::Undefined(Missing::Null))
    }

    pub(super) fn equals(&self, other: &Self) -> bool {
        if self.is_none() || other.is_none() {
            return self.is_none() && other.is_none();
        }
        if let (Self::Str(one), Self::Str(other)) = (self, other) {
            return one.as_str() == other.as_str();
        }
        if let (Some(one), Some(other)) = (self.number(), other.number()) {
            return one.compare(other) == Some(Ordering::Equal);
        }
        match (self, other) {
            (Self::Undefined(_), Self::Undefined(_)) => true,
            (Self::List(one), Self::List(other)) => {
                let is_list =
                    |kind| matches!(kind, ListKind::List | ListKind::Tuple | ListKind::Range);
                Rc::ptr_eq(one, other)
                    || one.kind == other.kind
                        && is_list(one.kind)
                        && one.items.len() == other.items.len()
                        && one.items.iter().zip(&other.items).all(|(one, other)| one.equals(other))
            }
            (Self::Dict(one), Self::Dict(other)) => {
                let has = |(key, value): &(Self, Self)| {
                    other.get(key).is_some_and(|found| found.equals(value))
                };
                one.members.len() == other.members.len() && one.members.iter().all(has)
            }
            (Self::Namespace(one), Self::Namespace(other)) => Rc::ptr_eq(one, other),
            (Self::Generator(one), Self::Generator(other)) => Rc::ptr_eq(one, other),
            (Self::Loop(one), Self::Loop(other)) => Rc::ptr_eq(one, other),
            (Self::Callable(one), Self::Callable(other)) => Rc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Python's `<` and its kind.
    pub(super) fn compare(&self, other: &Self, sign: &str) -> Outcome<Option<Ordering>> {
        self.check()?;
        other.check()?;
        if let (Some(one), Some(other)) = (self.number(), other.number()) {
            return Ok(one.compare(other));
        }
        match (self, other) {
            (Self::Str(one), Self::Str(other)) => Ok(Some(one.as_str().cmp(other.as_str()))),
            (Self::List(one), Self::List(two))
                if one.kind == two.kind && matches!(one.kind, ListKind::List | ListKind::Tuple) =>
            {
                for (one, other) in one.items.iter().zip(&two.items) {
                    if !one.equals(other) {
                        return one.compare(other, sign);
                    }
                }
                Ok(Some(one.items.len().cmp(&two.items.len())))
            }
            _ => {
                let (one, other) = (self.kind(), other.kind());
                Err(Problem::value(format!(
                    "`{sign}` is not supported between `{one}` and `{other}`"
                )))
            }
        }
    }

    /// Whether a container holds the value: `value in container`.
    pub(super) fn is_in(&self, container: &Self) -> Outcome<bool> {
        match container {
            Self::Str(text) => match self {
                Self::Str(part) => Ok(text.as_str().contains(part.as_str())),
                _ => {
                    let kind = self.kind();
                    Err(Problem::value(format!(
                        "`in` of a string has `{kind}` on its left, expected a string"
                    )))
                }
            },
            Self::Dict(dict) => {
                self.check_hashable()?;
                Ok(dict.get(self).is_some())
            }
            _ => Ok(container.items()?.iter().any(|item| item.equals(self))),
        }
    }

    pub(super) fn check_hashable(&self) -> Outcome<()> {
        match self {
            Self::Dict(_) => Err(Problem::value("`dict` cannot be a key")),
            Self::List(list) if list.kind == ListKind::List => {
                Err(Problem::value("`list` cannot be a key"))
            }
            Self::List(list) => list.items.iter().try_for_each(Self::check_hashable),
            _ => Ok(()),
        }
    }

    /// The items of what can be iterated over.
    pub(super) fn iterate(&self) -> Outcome<Vec<Self>> {
        match self {
            Self::Undefined(_) => Ok(Vec::new()),
            Self::List(list) => Ok(list.items.clone()),
            Self::Dict(dict) => Ok(dict.members.iter().map(|(key, _)| key.clone()).collect()),
            Self::Str(text) => Ok(text.chars().into_iter().map(Self::Str).collect()),
            Self::Generator(items) => Ok(items.borrow_mut().drain(..).collect()),
            _ => Err(Problem::value(format!("`{}` cannot be iterated over", self.kind()))),
        }
    }

    /// The items of what can be iterated over, to be looked at.
    pub(super) fn items(&self) -> Outcome<Items> {
        Ok(match self {
            Self::List(list) => Items::Shared(list.clone()),
            other => Items::Own(other.iterate()?),
        })
    }

    pub(super) fn is_iterable(&self) -> bool {
        matches!(
            self,
            Self::Undefined(_)
                | Self::List(_)
                | Self::Dict(_)
                | Self::Str(_)
                | Self::Generator(_)
                | Self::Loop(_)
        )
    }

    /// How many items it has: Python's `len`.
    pub(super) fn length(&self) -> Outcome<usize> {
        match self {
            Self::Undefined(_) => Ok(0),
            Self::Str(text) => Ok(text.as_str().chars().count()),
            Self::List(list) => Ok(list.items.len()),
            Self::Dict(dict) => Ok(dict.members.len()),
            Self::Loop(of) => Ok(of.items.len()),
            _ => Err(Problem::value(format!("`{}` has no length", self.kind()))),
        }
    }

    /// Of whom a number of this value's is: its length, a place in it, what it is rounded to.
    pub(super) fn origin(&self) -> Origin {
        match self {
            Self::Int(_, origin) | Self::Float(_, origin) => *origin,
            Self::Str(text) => text.main_origin(),
            Self::List(list) => list.origin,
            Self::Dict(dict) => dict.origin,
            _ => Origin::TEMPLATE,
        }
    }

    /// Python's `str`.
    pub(super) fn text(&self) -> Outcome<Text> {
        Ok(match self {
            Self::Str(text) => text.clone(),
            Self::Undefined(_) => Text::empty(),
            Self::None => Text::template("None"),
            Self::Bool(value) => Text::template(if *value { "True" } else { "False" }),
            Self::Int(value, origin) => Text::of(&value.to_string(), *origin),
            Self::Float(value, origin) => Text::of(&float(*value), *origin),
            _ => {
                let mut written = Builder::default();
                self.represent(&mut written, 0)?;
                written.finish()
            }
        })
    }

    /// Python's `repr`.
    pub(super) fn represent(&self, out: &mut Builder, depth: usize) -> Outcome<()> {
        if depth > MAX_SHOWN_DEPTH {
            return Err(Problem::Limit(format!("value nests deeper than {MAX_SHOWN_DEPTH}")));
        }
        match self {
            Self::Str(text) => represent_text(text, out),
            Self::Undefined(Missing::Null) => out.push_template("None"),
            Self::Undefined(_) => out.push_template("Undefined"),
            Self::None | Self::Bool(_) | Self::Int(..) | Self::Float(..) => {
                out.push_text(&self.text()?);
            }
            Self::List(list) => {
                let (open, close) = match list.kind {
                    ListKind::List => ("[", "]"),
                    ListKind::Tuple => ("(", ")"),
                    ListKind::Range => {
                        out.push_changed(&range_text(&list.items), list.origin);
                        return Ok(());
                    }
                    ListKind::Keys => ("dict_keys([", "])"),
                    ListKind::Values => ("dict_values([", "])"),
                    ListKind::Items => ("dict_items([", "])"),
                };
                out.push_changed(open, list.origin);
                for (nth, item) in list.items.iter().enumerate() {
                    if nth > 0 {
                        out.push_changed(", ", list.origin);
                    }
                    item.represent(out, depth + 1)?;
                }
                if list.kind == ListKind::Tuple && list.items.len() == 1 {
                    out.push_changed(",", list.origin);
                }
                out.push_changed(close, list.origin);
            }
            Self::Dict(dict) => {
                let members = dict.members.iter().map(|(key, value)| (key.clone(), value));
                members_text(members, dict.origin, out, depth)?;
            }
            Self::Namespace(attributes) => {
                let attributes = attributes.borrow();
                let members =
                    attributes.iter().map(|(name, value)| (Self::Str(name.clone()), value));
                out.push_template("<Namespace ");
                members_text(members, Origin::TEMPLATE, out, depth)?;
                out.push_template(">");
            }
            // Python shows an address, so no template means it.
            other => {
                return Err(Problem::value(format!("`{}` has no text of its own", other.kind())));
            }
        }
        Ok(())
    }
}

/// Deepest nesting of a value that is written.
pub(super) const MAX_SHOWN_DEPTH: usize = 200;

fn members_text<'a>(
    members: impl Iterator<Item = (Value, &'a Value)>,
    origin: Origin,
    out: &mut Builder,
    depth: usize,
) -> Outcome<()> {
    out.push_changed("{", origin);
    for (nth, (key, value)) in members.enumerate() {
        if nth > 0 {
            out.push_changed(", ", origin);
        }
        key.represent(out, depth + 1)?;
        out.push_changed(": ", origin);
        value.represent(out, depth + 1)?;
    }
    out.push_changed("}", origin);
    Ok(())
}

fn range_text(items: &[Value]) -> String {
    let at = |nth: usize| match items.get(nth) {
        Some(Value::Int(value, _)) => *value,
        _ => 0,
    };
    let step = if items.len() > 1 { at(1) - at(0) } else { 1 };
    let end = items.len().checked_sub(1).map_or(0, |last| at(last) + step.signum());
    let start = at(0);
    if step == 1 {
        format!("range({start}, {end})")
    } else {
        format!("range({start}, {end}, {step})")
    }
}

fn represent_text(text: &Text, out: &mut Builder) {
    let quote =
        if text.as_str().contains('\'') && !text.as_str().contains('"') { "\"" } else { "'" };
    let origin = text.main_origin();
    if text.is_markup {
        out.push_changed("Markup(", origin);
    }
    out.push_changed(quote, origin);
    let quoted = text.map(|_, c, changed| match c {
        '\\' => changed.push_str("\\\\"),
        '\n' => changed.push_str("\\n"),
        '\r' => changed.push_str("\\r"),
        '\t' => changed.push_str("\\t"),
        '\'' if quote == "'" => changed.push_str("\\'"),
        c if is_printable(c) => changed.push(c),
        c => {
            let code = u32::from(c);
            let _ = match code {
                0..=0xff => write!(changed, "\\x{code:02x}"),
                0x100..=0xffff => write!(changed, "\\u{code:04x}"),
                _ => write!(changed, "\\U{code:08x}"),
            };
        }
    });
    out.push_text(&quoted.marked(false));
    out.push_changed(quote, origin);
    if text.is_markup {
        out.push_changed(")", origin);
    }
}

/// Whether Python's `repr` shows a character as it is.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    // The first character of a text is escaped if it combines with one before it; so it is the second.
    let text = String::from_iter(['a', c]);
    text.escape_debug().count() == 2
}

/// Python's `repr` of a float.
pub(super) fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    pub(super) fn float(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(one), Self::Int(other)) => Some(one.cmp(&other)),
            _ => self.float().partial_cmp(&other.float()),
        }
    }
}
