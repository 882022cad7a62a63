//! Python values as the core reads them, and messages as Python dicts.
//!
//! What a caller's object raises while it is read ends the reading, and is raised as it is: the core is given a
//! value that nothing takes, and [`Raised`] keeps the exception. Types are asked for without `cast` to an
//! abstract class, which prints what the check raises and goes on.

use std::cell::RefCell;

use chatcodec::{CallBody, Media, Message, Node, Piece, View};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyAny, PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType,
};

use crate::away::look;
use crate::guard::_Panics;

/// What a caller's object raised while the core read it.
#[derive(Default)]
pub(crate) struct Raised(RefCell<Option<PyErr>>);

impl Raised {
    /// Raises it.
    pub(crate) fn check(&self) -> PyResult<()> {
        self.0.take().map_or(Ok(()), Err)
    }

    fn has_some(&self) -> bool {
        self.0.borrow().is_some()
    }

    fn keep(&self, error: PyErr) {
        self.0.borrow_mut().get_or_insert(error);
    }
}

/// A Python value.
pub(crate) struct Value<'a, 'py> {
    value: Bound<'py, PyAny>,
    raised: &'a Raised,
}

impl<'a, 'py> Value<'a, 'py> {
    pub(crate) fn new(value: &Bound<'py, PyAny>, raised: &'a Raised) -> Self {
        Self { value: value.clone(), raised }
    }

    fn of(&self, value: Bound<'py, PyAny>) -> Self {
        Self { value, raised: self.raised }
    }

    fn list(&self, items: impl Iterator<Item = Bound<'py, PyAny>>) -> View<'_, Self> {
        View::List(items.map(|item| self.of(item)).collect())
    }

    fn map(&self, members: impl IntoIterator<Item = Member<'py>>) -> View<'_, Self> {
        let members = members.into_iter();
        View::Map(members.map(|(key, value)| (self.of(key), self.of(value))).collect())
    }

    /// A value that is no text, and not none.
    fn view_other(&self) -> PyResult<View<'_, Self>> {
        let value = &self.value;
        if let Ok(dict) = value.cast::<PyDict>() {
            // Most of a conversation is dicts: so it is not read for long without a look for signals.
            value.py().check_signals()?;
            return Ok(self.map(dict.iter()));
        }
        if let Ok(list) = value.cast::<PyList>() {
            return Ok(self.list(list.iter()));
        }
        if let Ok(tuple) = value.cast::<PyTuple>() {
            // One whose items have names stands for a dict: a row of Spark's, a named tuple.
            let is_plain = tuple.is_exact_instance_of::<PyTuple>();
            let call = if is_plain { None } else { dict_call(value)? };
            if let Some(call) = call {
                return Ok(View::Object(type_name(value), call));
            }
            return Ok(self.list(tuple.iter()));
        }
        if let Ok(truth) = value.cast::<PyBool>() {
            return Ok(View::Bool(truth.is_true()));
        }
        // As `json.dumps` does: subclasses are written as the numbers they are.
        let number = if value.is_instance_of::<PyInt>() {
            value.py().get_type::<PyInt>().call_method1("__repr__", (value,))
        } else if value.is_instance_of::<PyFloat>() {
            value.py().get_type::<PyFloat>().call_method1("__repr__", (value,))
        } else {
            return self.view_abstract();
        };
        Ok(match number {
            Ok(number) => View::Number(number.to_string()),
            // Python does not write very long ints.
            Err(_) => View::Other(type_name(value)),
        })
    }

    /// A mapping or a sequence that is neither of Python's own, or anything else.
    fn view_abstract(&self) -> PyResult<View<'_, Self>> {
        static SEQUENCE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let value = &self.value;
        if value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>() {
            return Ok(View::Other(type_name(value)));
        }
        // Arrow's scalars: mappings and sequences of others.
        if value.get_type().hasattr("as_py")? {
            return self.view_listed(&value.call_method0("as_py")?);
        }
        if is_mapping(value)? {
            let members = members(value)?;
            return Ok(members.map_or_else(|| View::Other(type_name(value)), |all| self.map(all)));
        }
        if value.is_instance(SEQUENCE.import(value.py(), "collections.abc", "Sequence")?)? {
            let list = value.py().get_type::<PyList>().call1((value,))?;
            return Ok(self.list(list.cast::<PyList>()?.iter()));
        }
        // What holds values for others, as Python's own: arrays of NumPy, Arrow and Polars.
        for method in ["tolist", "to_list", "to_pylist"] {
            if value.get_type().hasattr(method)? {
                return self.view_listed(&value.call_method0(method)?);
            }
        }
        _Panics::check(value);
        Ok(match dict_call(value)? {
            Some(call) => View::Object(type_name(value), call),
            None => View::Other(type_name(value)),
        })
    }

    /// What an array or a scalar gives as Python's own value.
    fn view_listed(&self, listed: &Bound<'py, PyAny>) -> PyResult<View<'_, Self>> {
        let value = &self.value;
        if let Ok(list) = listed.cast::<PyList>() {
            return Ok(self.list(list.iter()));
        }
        if let Ok(dict) = listed.cast::<PyDict>() {
            return Ok(self.map(dict.iter()));
        }
        Ok(match listed {
            _ if listed.is_none() => View::Null,
            truth if truth.is_instance_of::<PyBool>() => View::Bool(truth.extract()?),
            number if number.is_instance_of::<PyInt>() || number.is_instance_of::<PyFloat>() => {
                View::Number(number.repr()?.to_string())
            }
            _ => View::Other(type_name(value)),
        })
    }
}

impl Node for Value<'_, '_> {
    fn as_text(&self) -> Option<&str> {
        self.value.cast::<PyString>().ok()?.to_str().ok()
    }

    fn view(&self) -> View<'_, Self> {
        if let Ok(text) = self.value.cast::<PyString>() {
            return text.to_str().map_or(View::Surrogate, View::Text);
        }
        if self.value.is_none() {
            return View::Null;
        }
        if self.raised.has_some() {
            return View::Other("object".into());
        }
        self.view_other().unwrap_or_else(|error| {
            self.raised.keep(error);
            View::Other("object".into())
        })
    }
}

/// A key and its value.
pub(crate) type Member<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Whether a value is a `collections.abc.Mapping`.
pub(crate) fn is_mapping(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    static MAPPING: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if value.is_instance_of::<PyDict>() {
        return Ok(true);
    }
    if value.is_exact_instance_of::<PyList>() {
        return Ok(false);
    }
    value.is_instance(MAPPING.import(value.py(), "collections.abc", "Mapping")?)
}

/// The members of a mapping; `None` where its `items` are no pairs.
pub(crate) fn members<'py>(mapping: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Member<'py>>>> {
    let mut members = Vec::new();
    for item in mapping.call_method0("items")?.try_iter()? {
        let item = item?;
        match item.cast::<PyTuple>() {
            Ok(pair) if pair.len() == 2 => members.push((pair.get_item(0)?, pair.get_item(1)?)),
            _ => return Ok(None),
        }
    }
    Ok(Some(members))
}

/// The call that makes a dict of an object that is none.
fn dict_call(value: &Bound<'_, PyAny>) -> PyResult<Option<&'static str>> {
    const CALLS: [(&str, &str); 5] = [
        ("model_dump", ".model_dump()"),
        ("__dataclass_fields__", "dataclasses.asdict(…)"),
        ("to_dict", ".to_dict()"),
        ("_asdict", "._asdict()"),
        ("asDict", ".asDict(recursive=True)"),
    ];
    let kind = value.get_type();
    for (attribute, call) in CALLS {
        if kind.hasattr(attribute)? {
            return Ok(Some(call));
        }
    }
    Ok(None)
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string())
}

/// A message as the dict that `encode` takes.
pub(crate) fn message_dict<'py>(
    py: Python<'py>,
    message: &Message,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("role", message.role.name())?;
    if let Some(name) = &message.name {
        dict.set_item("name", name)?;
    }
    if let Some(reasoning) = &message.reasoning {
        dict.set_item("reasoning", reasoning)?;
    }
    if message.media.is_empty() {
        dict.set_item("content", &message.content)?;
    } else {
        let parts = PyList::empty(py);
        for piece in message.pieces() {
            parts.append(part_dict(py, piece)?)?;
        }
        dict.set_item("content", parts)?;
    }
    if !message.calls.is_empty() {
        let calls = PyList::empty(py);
        for call in &message.calls {
            let item = PyDict::new(py);
            if let Some(id) = &call.id {
                item.set_item("id", id)?;
            }
            let body = PyDict::new(py);
            let kind = match &call.body {
                CallBody::Function { name, arguments } => {
                    body.set_item("name", name)?;
                    body.set_item("arguments", arguments)?;
                    "function"
                }
                CallBody::Code { language, source } => {
                    if let Some(language) = language {
                        body.set_item("language", language)?;
                    }
                    body.set_item("source", source)?;
                    "code"
                }
            };
            item.set_item("type", kind)?;
            item.set_item(kind, body)?;
            calls.append(item)?;
        }
        dict.set_item("tool_calls", calls)?;
    }
    if let Some(id) = &message.call_id {
        dict.set_item("tool_call_id", id)?;
    }
    Ok(dict)
}

/// A part of a content as the dict that `encode` takes.
fn part_dict<'py>(py: Python<'py>, piece: Piece<'_>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    match piece {
        Piece::Text(text) => {
            dict.set_item("type", "text")?;
            dict.set_item("text", text)?;
        }
        Piece::Media(&Media { kind, count, rows, .. }) => {
            dict.set_item("type", kind.name())?;
            match rows {
                1 => dict.set_item("tokens", count)?,
                _ => dict.set_item("tokens", [rows, count])?,
            }
        }
    }
    Ok(dict)
}

/// Messages as a list of dicts.
pub(crate) fn message_list<'py>(
    py: Python<'py>,
    messages: &[Message],
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for (nth, message) in messages.iter().enumerate() {
        look(py, nth)?;
        list.append(message_dict(py, message)?)?;
    }
    Ok(list)
}
