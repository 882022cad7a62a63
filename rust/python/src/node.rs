//! Python values as the core reads them, and messages as Python dicts.

use chatcodec::{CallBody, Message, Node, View};
use pyo3::prelude::*;
use pyo3::types::{
    PyAny, PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PySequence,
    PyString, PyTuple,
};

/// A Python value.
pub(crate) struct Value<'py>(pub(crate) Bound<'py, PyAny>);

impl Node for Value<'_> {
    fn view(&self) -> View<'_, Self> {
        let value = &self.0;
        if let Ok(text) = value.cast::<PyString>() {
            return text.to_str().map_or(View::Surrogate, View::Text);
        }
        if value.is_none() {
            return View::Null;
        }
        if let Ok(dict) = value.cast::<PyDict>() {
            return View::Map(dict.iter().map(|(key, value)| (Self(key), Self(value))).collect());
        }
        if let Ok(list) = value.cast::<PyList>() {
            return View::List(list.iter().map(Self).collect());
        }
        if let Ok(tuple) = value.cast::<PyTuple>() {
            return View::List(tuple.iter().map(Self).collect());
        }
        if let Some(view) = abstract_view(value) {
            return view;
        }
        if let Ok(truth) = value.cast::<PyBool>() {
            return View::Bool(truth.is_true());
        }
        // As `json.dumps` does: subclasses are written as the numbers they are.
        let number = if value.is_instance_of::<PyInt>() {
            value.py().get_type::<PyInt>().call_method1("__repr__", (value,))
        } else if value.is_instance_of::<PyFloat>() {
            value.py().get_type::<PyFloat>().call_method1("__repr__", (value,))
        } else {
            return View::Other(type_name(value));
        };
        match number {
            Ok(number) => View::Number(number.to_string()),
            Err(_) => View::Other(type_name(value)),
        }
    }
}

/// A mapping or a sequence that is neither of Python's own.
fn abstract_view<'py>(value: &Bound<'py, PyAny>) -> Option<View<'static, Value<'py>>> {
    if value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>() {
        return None;
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        let items = mapping.items().ok()?;
        let members =
            items.iter().map(|item| item.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>());
        let members: Vec<_> = members.collect::<PyResult<_>>().ok()?;
        return Some(View::Map(members.into_iter().map(|(k, v)| (Value(k), Value(v))).collect()));
    }
    let sequence = value.cast::<PySequence>().ok()?;
    Some(View::List(sequence.to_list().ok()?.iter().map(Value).collect()))
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
    dict.set_item("content", &message.content)?;
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

/// Messages as a list of dicts.
pub(crate) fn message_list<'py>(
    py: Python<'py>,
    messages: &[Message],
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for message in messages {
        list.append(message_dict(py, message)?)?;
    }
    Ok(list)
}
