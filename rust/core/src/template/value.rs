//! The values of a template, with Python's truth, equality, order and text.
//!
//! A value is a tree of at most [`MAX_DEPTH`] levels, which is checked where it is made: nothing that walks one, a drop
//! among it, goes deeper. Parts of it may be shared, so that a walk may take exponential time: each visit is charged.
//! What can change (namespaces, and frames of variables) is kept by the machine until its end, and is no level.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fmt::Write;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashTable;

use super::error::Problem;
use super::machine::{Callable, Loop};
use super::meter::{Held, Meter};
use super::text::{Builder, Origin, Text};

pub(super) type Outcome<T> = Result<T, Problem>;

/// Most levels of a value: those of a caller, and some that the template puts around them.
pub(super) const MAX_DEPTH: u16 = 256;

/// The depth of what holds values of a depth.
fn level(inner: u16) -> Outcome<u16> {
    if inner >= MAX_DEPTH {
        return Err(Problem::Limit(format!("value nests deeper than {MAX_DEPTH}")));
    }
    Ok(inner + 1)
}

/// The depth of the deepest of some values.
fn deepest(items: &[Value]) -> u16 {
    items.iter().map(Value::depth).max().unwrap_or(0)
}

#[derive(Clone)]
pub(super) enum Value {
    /// With what is missing, which its use is an error about.
    Undefined(Missing),
    None,
    Bool(bool),
    Int(i64, Origin),
    /// An integer of a caller's of more than 64 bits, as it is written: it can be printed and compared with itself.
    Long(Arc<str>, Origin),
    Float(f64, Origin),
    Str(Text),
    List(Rc<List>),
    Dict(Rc<Dict>),
    /// `namespace(…)`
    Namespace(Rc<RefCell<Dict>>),
    /// What `map`, `select` and their kind give: its items can be taken once.
    Generator(Rc<Generator>),
    Loop(Rc<Loop>),
    Callable(Rc<Callable>),
}

/// Why a value is undefined; most are never asked.
#[derive(Debug, Clone)]
pub(super) enum Missing {
    Variable(Arc<str>),
    /// The kind of the object, and the name.
    Member(&'static str, Arc<str>),
    Parameter(Arc<str>),
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
            Self::Parameter(name) => format!("parameter `{name}` was not provided"),
            Self::Other(problem) => (**problem).to_owned(),
            Self::Null => "the content is None".into(),
        }
    }
}

/// The items of what can be iterated over: those of a list are shared.
pub(super) enum Items {
    Shared(Rc<List>),
    /// With the depth of what they were taken from.
    Own(Vec<Value>, u16),
}

impl Items {
    pub(super) fn depth(&self) -> u16 {
        match self {
            Self::Shared(list) => list.depth,
            Self::Own(_, depth) => *depth,
        }
    }
}

impl std::ops::Deref for Items {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        match self {
            Self::Shared(list) => &list.items,
            Self::Own(items, _) => items,
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
    depth: u16,
    /// The memory that is given back when the list is dropped, if it is.
    _held: Option<Held>,
}

impl List {
    /// Fails for items that are too deep.
    pub(super) fn new(items: Vec<Value>, kind: ListKind, origin: Origin) -> Outcome<Self> {
        let depth = level(deepest(&items))?;
        Ok(Self { items, kind, origin, depth, _held: None })
    }

    /// A range, whose memory is given back when it is dropped: loops ask for one range after another.
    pub(super) fn range(items: Vec<Value>, origin: Origin, held: Held) -> Self {
        Self { items, kind: ListKind::Range, origin, depth: 1, _held: Some(held) }
    }
}

/// Values that can be taken once.
pub(super) struct Generator {
    items: RefCell<VecDeque<Value>>,
    depth: u16,
}

impl Generator {
    /// What is found in one of the values that are left.
    pub(super) fn find_map<R>(&self, find: impl FnMut(&Value) -> Option<R>) -> Option<R> {
        self.items.borrow().iter().find_map(find)
    }
}

/// Members in order; of two with one key the later value stays.
#[derive(Clone)]
pub(super) struct Dict {
    pub(super) members: Vec<(Value, Value)>,
    /// Places of the members by their keys' hashes, in a dict of many.
    index: Option<HashTable<(u64, usize)>>,
    pub(super) origin: Origin,
    /// Whether a key is a name that the caller chose.
    pub(super) has_content: bool,
    /// Which message it is, if it is one.
    pub(super) message: Option<u32>,
    depth: u16,
}

/// From so many members on, a dict has an index.
const INDEXED: usize = 9;

thread_local! {
    static HASHES: RandomState = RandomState::new();
}

fn hasher() -> DefaultHasher {
    HASHES.with(BuildHasher::build_hasher)
}

fn hash_of_text(text: &str) -> u64 {
    let mut state = hasher();
    (0_u8, text).hash(&mut state);
    state.finish()
}

impl Dict {
    pub(super) fn new(
        members: impl IntoIterator<Item = (Value, Value)>,
        origin: Origin,
        meter: &Meter,
    ) -> Outcome<Self> {
        let mut dict = Self::with_capacity(0, origin);
        for (key, value) in members {
            dict.insert(key, value, meter)?;
        }
        Ok(dict)
    }

    /// A dict with room for so many members.
    pub(super) fn with_capacity(members: usize, origin: Origin) -> Self {
        let members = Vec::with_capacity(members);
        Self { members, index: None, origin, has_content: false, message: None, depth: 1 }
    }

    fn place(&self, key: &Value, meter: &Meter) -> Outcome<Option<usize>> {
        let Some(index) = &self.index else {
            for (at, (known, _)) in self.members.iter().enumerate() {
                if known.equals(key, meter)? {
                    return Ok(Some(at));
                }
            }
            return Ok(None);
        };
        let hash = key.hash(meter)?;
        // Equality is charged, so it may fail.
        let mut problem = None;
        let is_key = |&(known, at): &(u64, usize)| {
            known == hash
                && match self.members[at].0.equals(key, meter) {
                    Ok(is_equal) => is_equal,
                    Err(found) => {
                        problem = Some(found);
                        true
                    }
                }
        };
        let found = index.find(hash, is_key).map(|(_, at)| *at);
        problem.map_or(Ok(found), Err)
    }

    /// Sets a member. Fails for one that is too deep.
    pub(super) fn insert(&mut self, key: Value, value: Value, meter: &Meter) -> Outcome<()> {
        self.depth = self.depth.max(level(key.depth().max(value.depth()))?);
        if let Some(at) = self.place(&key, meter)? {
            self.members[at].1 = value;
            return Ok(());
        }
        self.has_content |= matches!(&key, Value::Str(text) if text.content().is_some());
        if let Some(index) = &mut self.index {
            let hash = key.hash(meter)?;
            index.insert_unique(hash, (hash, self.members.len()), |(hash, _)| *hash);
        }
        self.members.push((key, value));
        if self.members.len() == INDEXED {
            let mut index = HashTable::with_capacity(2 * INDEXED);
            for (at, (key, _)) in self.members.iter().enumerate() {
                let hash = key.hash(meter)?;
                index.insert_unique(hash, (hash, at), |(hash, _)| *hash);
            }
            self.index = Some(index);
        }
        Ok(())
    }

    pub(super) fn get(&self, key: &Value, meter: &Meter) -> Outcome<Option<&Value>> {
        Ok(self.member(key, meter)?.map(|(_, value)| value))
    }

    /// The member of a key, with the key as it was inserted.
    pub(super) fn member(&self, key: &Value, meter: &Meter) -> Outcome<Option<&(Value, Value)>> {
        Ok(self.place(key, meter)?.map(|at| &self.members[at]))
    }

    pub(super) fn get_str(&self, key: &str) -> Option<&Value> {
        self.member_of(key).map(|(_, value)| value)
    }

    /// The member of a key that is this string.
    pub(super) fn member_of(&self, key: &str) -> Option<&(Value, Value)> {
        let is_key = |known: &Value| matches!(known, Value::Str(text) if text.as_str() == key);
        let Some(index) = &self.index else {
            return self.members.iter().find(|(known, _)| is_key(known));
        };
        let found = index.find(hash_of_text(key), |(_, at)| is_key(&self.members[*at].0))?;
        Some(&self.members[found.1])
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

    pub(super) fn list(items: Vec<Self>) -> Outcome<Self> {
        Self::of_kind(items, ListKind::List)
    }

    pub(super) fn tuple(items: Vec<Self>) -> Outcome<Self> {
        Self::of_kind(items, ListKind::Tuple)
    }

    /// A list of the template's. Its values are charged by who makes them.
    pub(super) fn of_kind(items: Vec<Self>, kind: ListKind) -> Outcome<Self> {
        Ok(Self::List(Rc::new(List::new(items, kind, Origin::TEMPLATE)?)))
    }

    pub(super) fn generator(items: Vec<Self>) -> Outcome<Self> {
        let depth = level(deepest(&items))?;
        Ok(Self::Generator(Rc::new(Generator { items: RefCell::new(items.into()), depth })))
    }

    /// Levels of the value: none for what is no container, and for what the machine keeps.
    pub(super) fn depth(&self) -> u16 {
        match self {
            Self::List(list) => list.depth,
            Self::Dict(dict) => dict.depth,
            Self::Generator(of) => of.depth,
            Self::Loop(of) => of.items.depth().saturating_add(1),
            Self::Callable(callable) => match &**callable {
                Callable::Method(object, _) => object.depth().saturating_add(1),
                Callable::Cycler { items, .. } => deepest(items).saturating_add(1),
                Callable::Joiner { separator, .. } => separator.depth().saturating_add(1),
                Callable::Function(_) | Callable::Macro { .. } => 0,
            },
            Self::Undefined(_)
            | Self::None
            | Self::Bool(_)
            | Self::Int(..)
            | Self::Long(..)
            | Self::Float(..)
            | Self::Str(_)
            | Self::Namespace(_) => 0,
        }
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
            Self::Int(..) | Self::Long(..) => "int",
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
            Self::Long(..)
            | Self::Namespace(_)
            | Self::Generator(_)
            | Self::Loop(_)
            | Self::Callable(_) => true,
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

    /// Python's `==`.
    pub(super) fn equals(&self, other: &Self, meter: &Meter) -> Outcome<bool> {
        if self.is_none() || other.is_none() {
            return Ok(self.is_none() && other.is_none());
        }
        if let (Self::Str(one), Self::Str(other)) = (self, other) {
            if one.len() != other.len() {
                return Ok(false);
            }
            meter.skim(one.len())?;
            return Ok(one.as_str() == other.as_str());
        }
        if let (Some(one), Some(other)) = (self.number(), other.number()) {
            return Ok(one.compare(other) == Some(Ordering::Equal));
        }
        Ok(match (self, other) {
            (Self::Long(one, _), Self::Long(other, _)) => one == other,
            (Self::Long(long, _), Self::Float(float, _))
            | (Self::Float(float, _), Self::Long(long, _)) => **long == *format!("{float:.0}"),
            (Self::Undefined(_), Self::Undefined(_)) => true,
            (Self::List(one), Self::List(other)) => {
                let is_list =
                    |kind| matches!(kind, ListKind::List | ListKind::Tuple | ListKind::Range);
                if Rc::ptr_eq(one, other) {
                    return Ok(true);
                }
                if one.kind != other.kind
                    || !is_list(one.kind)
                    || one.items.len() != other.items.len()
                {
                    return Ok(false);
                }
                for (one, other) in one.items.iter().zip(&other.items) {
                    meter.take(1)?;
                    if !one.equals(other, meter)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Self::Dict(one), Self::Dict(other)) => {
                if one.members.len() != other.members.len() {
                    return Ok(false);
                }
                for (key, value) in &one.members {
                    meter.take(2)?;
                    let Some(found) = other.get(key, meter)? else { return Ok(false) };
                    if !found.equals(value, meter)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Self::Namespace(one), Self::Namespace(other)) => Rc::ptr_eq(one, other),
            (Self::Generator(one), Self::Generator(other)) => Rc::ptr_eq(one, other),
            (Self::Loop(one), Self::Loop(other)) => Rc::ptr_eq(one, other),
            (Self::Callable(one), Self::Callable(other)) => Rc::ptr_eq(one, other),
            _ => false,
        })
    }

    /// The hash of a key: equal keys have one hash. Fails for what cannot be a key.
    pub(super) fn hash(&self, meter: &Meter) -> Outcome<u64> {
        if let Self::Str(text) = self {
            meter.skim(text.len())?;
            return Ok(hash_of_text(text.as_str()));
        }
        let mut state = hasher();
        self.hash_into(&mut state, meter)?;
        Ok(state.finish())
    }

    fn hash_into(&self, state: &mut DefaultHasher, meter: &Meter) -> Outcome<()> {
        meter.take(1)?;
        // Integers and floats that are equal have one hash.
        if let Some(number) = self.number() {
            (1_u8, (number.float() + 0.0).to_bits()).hash(state);
            return Ok(());
        }
        match self {
            Self::Str(text) => {
                meter.skim(text.len())?;
                (0_u8, text.as_str()).hash(state);
            }
            Self::Dict(_) => return Err(Problem::value("`dict` cannot be a key")),
            Self::List(list) if list.kind == ListKind::List => {
                return Err(Problem::value("`list` cannot be a key"));
            }
            Self::List(list) => {
                (2_u8, list.items.len()).hash(state);
                for item in &list.items {
                    item.hash_into(state, meter)?;
                }
            }
            Self::Long(long, _) => (1_u8, long.parse().unwrap_or(0.0_f64).to_bits()).hash(state),
            _ => 3_u8.hash(state),
        }
        Ok(())
    }

    /// Python's `<` and its kind.
    pub(super) fn compare(
        &self,
        other: &Self,
        sign: &str,
        meter: &Meter,
    ) -> Outcome<Option<Ordering>> {
        self.check()?;
        other.check()?;
        if let (Some(one), Some(other)) = (self.number(), other.number()) {
            return Ok(one.compare(other));
        }
        match (self, other) {
            (Self::Str(one), Self::Str(other)) => {
                meter.skim(one.len().min(other.len()))?;
                Ok(Some(one.as_str().cmp(other.as_str())))
            }
            (Self::List(one), Self::List(two))
                if one.kind == two.kind && matches!(one.kind, ListKind::List | ListKind::Tuple) =>
            {
                for (one, other) in one.items.iter().zip(&two.items) {
                    meter.take(1)?;
                    if !one.equals(other, meter)? {
                        return one.compare(other, sign, meter);
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
    pub(super) fn is_in(&self, container: &Self, meter: &Meter) -> Outcome<bool> {
        match container {
            Self::Str(text) => match self {
                Self::Str(part) => {
                    meter.read(text.len())?;
                    meter.read(part.len())?;
                    Ok(text.as_str().contains(part.as_str()))
                }
                _ => {
                    let kind = self.kind();
                    Err(Problem::value(format!(
                        "`in` of a string has `{kind}` on its left, expected a string"
                    )))
                }
            },
            Self::Dict(dict) => {
                self.hash(meter)?;
                Ok(dict.get(self, meter)?.is_some())
            }
            _ => Ok(self.place_in(&container.items(meter)?, meter)?.is_some()),
        }
    }

    /// The first place of the value among items.
    pub(super) fn place_in(&self, items: &[Self], meter: &Meter) -> Outcome<Option<usize>> {
        for (at, item) in items.iter().enumerate() {
            meter.take(1)?;
            if item.equals(self, meter)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// The items of what can be iterated over, as values of their own.
    pub(super) fn iterate(&self, meter: &Meter) -> Outcome<Vec<Self>> {
        match self {
            Self::Undefined(_) => Ok(Vec::new()),
            Self::List(list) => {
                meter.values(list.items.len())?;
                Ok(list.items.clone())
            }
            Self::Dict(dict) => {
                meter.values(dict.members.len())?;
                Ok(dict.members.iter().map(|(key, _)| key.clone()).collect())
            }
            Self::Str(text) => {
                meter.skim(text.len())?;
                meter.texts(text.as_str().chars().count())?;
                Ok(text.chars().into_iter().map(Self::Str).collect())
            }
            Self::Generator(of) => {
                let items = of.items.take();
                meter.values(items.len())?;
                Ok(items.into())
            }
            _ => Err(Problem::value(format!("`{}` cannot be iterated over", self.kind()))),
        }
    }

    /// The items of what can be iterated over, to be looked at.
    pub(super) fn items(&self, meter: &Meter) -> Outcome<Items> {
        Ok(match self {
            Self::List(list) => Items::Shared(list.clone()),
            other => Items::Own(other.iterate(meter)?, other.depth()),
        })
    }

    /// The first item of what can be iterated over, or the last one.
    pub(super) fn end_item(&self, is_first: bool, meter: &Meter) -> Outcome<Option<Self>> {
        fn end<T>(items: &[T], is_first: bool) -> Option<&T> {
            if is_first { items.first() } else { items.last() }
        }
        Ok(match self {
            Self::List(list) => end(&list.items, is_first).cloned(),
            Self::Dict(dict) => end(&dict.members, is_first).map(|(key, _)| key.clone()),
            Self::Str(text) => {
                let mut chars = text.as_str().char_indices();
                let found = if is_first { chars.next() } else { chars.next_back() };
                found.map(|(at, c)| Self::Str(text.slice(at..at + c.len_utf8()).marked(false)))
            }
            Self::Generator(of) if is_first => of.items.borrow_mut().pop_front(),
            other => {
                let mut items = other.iterate(meter)?;
                if is_first { items.into_iter().next() } else { items.pop() }
            }
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
    pub(super) fn length(&self, meter: &Meter) -> Outcome<usize> {
        match self {
            Self::Undefined(_) => Ok(0),
            Self::Str(text) => {
                meter.skim(text.len())?;
                Ok(text.as_str().chars().count())
            }
            Self::List(list) => Ok(list.items.len()),
            Self::Dict(dict) => Ok(dict.members.len()),
            Self::Loop(of) => Ok(of.items.len()),
            _ => Err(Problem::value(format!("`{}` has no length", self.kind()))),
        }
    }

    /// Of whom a number of this value's is: its length, a place in it, what it is rounded to.
    pub(super) fn origin(&self) -> Origin {
        match self {
            Self::Int(_, origin) | Self::Long(_, origin) | Self::Float(_, origin) => *origin,
            Self::Str(text) => text.main_origin(),
            Self::List(list) => list.origin,
            Self::Dict(dict) => dict.origin,
            _ => Origin::TEMPLATE,
        }
    }

    /// Python's `str`.
    pub(super) fn text(&self, meter: &Meter) -> Outcome<Text> {
        Ok(match self {
            Self::Str(text) => text.clone(),
            Self::Undefined(_) => Text::empty(),
            Self::None => Text::template("None"),
            Self::Bool(value) => Text::template(if *value { "True" } else { "False" }),
            Self::Int(value, origin) => Text::of(&value.to_string(), *origin),
            Self::Long(value, origin) => Text::of(value, *origin),
            Self::Float(value, origin) => Text::of(&float(*value), *origin),
            _ => self.shown(meter)?,
        })
    }

    /// Python's `repr`.
    pub(super) fn shown(&self, meter: &Meter) -> Outcome<Text> {
        let mut out = Metered::new(meter);
        self.represent(&mut out, 0)?;
        Ok(out.finish())
    }

    fn represent(&self, out: &mut Metered<'_>, depth: u16) -> Outcome<()> {
        // A namespace may hold itself.
        if depth > MAX_DEPTH {
            return Err(Problem::Limit(format!("value nests deeper than {MAX_DEPTH}")));
        }
        match self {
            Self::Str(text) => represent_text(text, out)?,
            Self::Undefined(Missing::Null) => out.push("None", Origin::TEMPLATE)?,
            Self::Undefined(_) => out.push("Undefined", Origin::TEMPLATE)?,
            Self::None | Self::Bool(_) | Self::Int(..) | Self::Long(..) | Self::Float(..) => {
                out.push_text(&self.text(out.meter)?)?;
            }
            Self::List(list) => {
                let (open, close) = match list.kind {
                    ListKind::List => ("[", "]"),
                    ListKind::Tuple => ("(", ")"),
                    ListKind::Range => return out.push(&range_text(&list.items), list.origin),
                    ListKind::Keys => ("dict_keys([", "])"),
                    ListKind::Values => ("dict_values([", "])"),
                    ListKind::Items => ("dict_items([", "])"),
                };
                out.push(open, list.origin)?;
                for (nth, item) in list.items.iter().enumerate() {
                    if nth > 0 {
                        out.push(", ", list.origin)?;
                    }
                    item.represent(out, depth + 1)?;
                }
                if list.kind == ListKind::Tuple && list.items.len() == 1 {
                    out.push(",", list.origin)?;
                }
                out.push(close, list.origin)?;
            }
            Self::Dict(dict) => members_text(dict, out, depth)?,
            Self::Namespace(attributes) => {
                out.push("<Namespace ", Origin::TEMPLATE)?;
                members_text(&attributes.borrow(), out, depth)?;
                out.push(">", Origin::TEMPLATE)?;
            }
            // Python shows an address, so no template means it.
            other => {
                return Err(Problem::value(format!("`{}` has no text of its own", other.kind())));
            }
        }
        Ok(())
    }
}

/// A text that is written piece by piece, each charged before.
pub(super) struct Metered<'a> {
    pub(super) meter: &'a Meter,
    out: Builder,
}

impl<'a> Metered<'a> {
    pub(super) fn new(meter: &'a Meter) -> Self {
        Self { meter, out: Builder::default() }
    }

    /// Writes text of one origin, which has no place in a caller's string.
    pub(super) fn push(&mut self, text: &str, origin: Origin) -> Outcome<()> {
        self.meter.write(self.out.len(), text.len(), 1)?;
        self.out.push_changed(text, origin);
        Ok(())
    }

    pub(super) fn push_text(&mut self, text: &Text) -> Outcome<()> {
        self.meter.write(self.out.len(), text.len(), text.run_count())?;
        self.out.push_text(text);
        Ok(())
    }

    pub(super) fn push_range(&mut self, text: &Text, range: Range<usize>) -> Outcome<()> {
        // A range of many runs has at most a run for each byte.
        let runs = text.run_count().min(range.len());
        self.meter.write(self.out.len(), range.len(), runs)?;
        self.out.push_range(text, range);
        Ok(())
    }

    /// Writes text of the template so many times, to fill a width.
    pub(super) fn push_fill(&mut self, text: &'static str, count: usize) -> Outcome<()> {
        self.meter.write(self.out.len(), text.len().saturating_mul(count), 1)?;
        self.out.push_repeated(text, count);
        Ok(())
    }

    /// Writes a text so many times.
    pub(super) fn push_repeated(&mut self, text: &Text, count: usize) -> Outcome<()> {
        let bytes = text.len().saturating_mul(count);
        if let Some(origin) = text.unplaced() {
            self.meter.write(self.out.len(), bytes, 1)?;
            self.out.push_changed(&text.as_str().repeat(count), origin);
            return Ok(());
        }
        self.meter.write(self.out.len(), bytes, text.run_count().saturating_mul(count))?;
        for _ in 0..count {
            self.out.push_text(text);
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Text {
        self.out.finish()
    }
}

fn members_text(dict: &Dict, out: &mut Metered<'_>, depth: u16) -> Outcome<()> {
    out.push("{", dict.origin)?;
    for (nth, (key, value)) in dict.members.iter().enumerate() {
        if nth > 0 {
            out.push(", ", dict.origin)?;
        }
        key.represent(out, depth + 1)?;
        out.push(": ", dict.origin)?;
        value.represent(out, depth + 1)?;
    }
    out.push("}", dict.origin)
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

fn represent_text(text: &Text, out: &mut Metered<'_>) -> Outcome<()> {
    out.meter.read(text.len())?;
    out.meter.make(text.len() as u64)?;
    let quote =
        if text.as_str().contains('\'') && !text.as_str().contains('"') { "\"" } else { "'" };
    let origin = text.main_origin();
    if text.is_markup {
        out.push("Markup(", origin)?;
    }
    out.push(quote, origin)?;
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
    out.push_text(&quoted.marked(false))?;
    out.push(quote, origin)?;
    if text.is_markup {
        out.push(")", origin)?;
    }
    Ok(())
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
