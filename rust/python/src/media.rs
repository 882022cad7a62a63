//! The option `media_tokens`: a function of the caller's that counts the ids of images and other parts.
//!
//! In: messages. Out: the same messages, in which each such part without `tokens` has the count of the function. What
//! has to change is copied; the caller's objects stay as they are.

use chatcodec::MediaKind;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyList, PyString, PyTuple};

use crate::node::{is_mapping, members};

/// The name of the option.
pub(crate) const MEDIA_TOKENS: &str = "media_tokens";

/// The function, checked; none for None.
pub(crate) fn counter<'py>(given: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    if given.is_none() {
        return Ok(None);
    }
    if !given.is_callable() {
        let kind = given.get_type().name()?;
        let message = format!(
            "{MEDIA_TOKENS}: is `{kind}`, expected a function of a part and its path, or None"
        );
        return Err(PyTypeError::new_err(message));
    }
    Ok(Some(given.clone()))
}

/// The messages with the counts of a function.
pub(crate) fn counted<'py>(
    messages: &Bound<'py, PyAny>,
    counter: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    each(messages, "messages", &mut |message, path| {
        let message = with_parts(message, "content", path, counter)?;
        with_parts(&message, "output", path, counter)
    })
}

/// A change of an item at a path.
type Change<'a, 'py> = dyn FnMut(&Bound<'py, PyAny>, &str) -> PyResult<Bound<'py, PyAny>> + 'a;

/// A list with its items changed; anything else as it is.
fn each<'py>(
    list: &Bound<'py, PyAny>,
    path: &str,
    change: &mut Change<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    if !list.is_instance_of::<PyList>() && !list.is_exact_instance_of::<PyTuple>() {
        return Ok(list.clone());
    }
    let changed = PyList::empty(list.py());
    for (at, item) in list.try_iter()?.enumerate() {
        changed.append(change(&item?, &format!("{path}[{at}]"))?)?;
    }
    Ok(changed.into_any())
}

/// A mapping with the parts of a list counted.
fn with_parts<'py>(
    mapping: &Bound<'py, PyAny>,
    key: &str,
    path: &str,
    counter: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(list) = value(mapping, key)? else { return Ok(mapping.clone()) };
    let parts = each(&list, &format!("{path}.{key}"), &mut |part, path| {
        let kind = value(part, "type")?;
        let kind = kind.as_ref().and_then(|kind| kind.cast::<PyString>().ok());
        match kind.map(|kind| kind.to_string_lossy()).as_deref() {
            Some("tool_result") => with_parts(part, "content", path, counter),
            Some(kind) if MediaKind::of_part(kind).is_some() => {
                if value(part, "tokens")?.is_some() {
                    return Ok(part.clone());
                }
                with(part, "tokens", &counter.call1((part, path))?)
            }
            _ => Ok(part.clone()),
        }
    })?;
    if parts.is(&list) {
        return Ok(mapping.clone());
    }
    with(mapping, key, &parts)
}

/// The value of a key that is not none.
fn value<'py>(mapping: &Bound<'py, PyAny>, key: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    if let Ok(dict) = mapping.cast::<PyDict>() {
        return Ok(dict.get_item(key)?.filter(|value| !value.is_none()));
    }
    if !is_mapping(mapping)? {
        return Ok(None);
    }
    let all = members(mapping)?.unwrap_or_default();
    let is_key = |name: &Bound<'py, PyAny>| name.cast::<PyString>().is_ok_and(|name| name == key);
    let found = all.into_iter().find(|(name, _)| is_key(name));
    Ok(found.map(|(_, value)| value).filter(|value| !value.is_none()))
}

/// A copy of a mapping with another value of a key.
fn with<'py>(
    mapping: &Bound<'py, PyAny>,
    key: &str,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let copy = PyDict::new(mapping.py());
    for (name, value) in members(mapping)?.unwrap_or_default() {
        copy.set_item(name, value)?;
    }
    copy.set_item(key, value)?;
    Ok(copy.into_any())
}
