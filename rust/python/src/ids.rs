//! The argument "ids": one int, ints, or a buffer of ints; and text.

use std::borrow::Cow;
use std::sync::Arc;

use chatcodec::{TokenId, make_text_room};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{
    PyAny, PyByteArray, PyBytes, PyDict, PyFrozenSet, PyInt, PyList, PySet, PySlice, PyString,
    PyTuple,
};

use crate::array::{IntArray, has_buffer};
use crate::away::{LONG_TEXT, look};
use crate::encoding::Encoding;
use crate::errors::{MessageError, VocabError};
use crate::guard::_Panics;

/// A caller's sequence as a list. Its `len()` may lie, so no room is reserved for it.
pub(crate) struct ListOf<T>(pub(crate) Vec<T>);

impl<'py, T: for<'a> FromPyObject<'a, 'py>> FromPyObject<'_, 'py> for ListOf<T> {
    type Error = PyErr;

    #[cfg(feature = "testing")]
    const INPUT_TYPE: pyo3::inspect::PyStaticExpr = {
        use pyo3::{type_hint_identifier, type_hint_subscript};
        type_hint_subscript!(type_hint_identifier!("collections.abc", "Sequence"), T::INPUT_TYPE)
    };

    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if obj.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("expected a sequence of texts, found one `str`"));
        }
        let mut members = Vec::new();
        for item in obj.try_iter()? {
            look(obj.py(), members.len())?;
            members.push(item?.extract().map_err(Into::into)?);
        }
        Ok(Self(members))
    }
}

/// Ids as the caller gave them. Ints outside of int32 are kept separately, by position.
pub(crate) enum Ids {
    One(TokenId),
    Many(Vec<TokenId>),
    Shared(Arc<Vec<TokenId>>),
    /// Ids, with the position and value of every int outside of int32.
    Odd(Vec<TokenId>, Vec<(usize, String)>),
}

impl Ids {
    /// The ids, all of which must be int32.
    pub(crate) fn plain(&self) -> PyResult<&[TokenId]> {
        match self {
            Self::Odd(_, odd) => {
                let id = chatcodec::place(odd.first().map_or("", |(_, id)| id));
                let message = format!("vocabulary `id`: {id} is no token id, expected an int32");
                Err(VocabError::new_err((message, None::<String>, None::<usize>, "id")))
            }
            ids => Ok(ids.all()),
        }
    }

    /// The ids, odd ones as -1.
    pub(crate) fn all(&self) -> &[TokenId] {
        match self {
            Self::One(id) => std::slice::from_ref(id),
            Self::Many(ids) | Self::Odd(ids, _) => ids,
            Self::Shared(ids) => ids,
        }
    }

    /// The odd ones, by position.
    pub(crate) fn odd(&self) -> &[(usize, String)] {
        match self {
            Self::Odd(_, odd) => odd,
            _ => &[],
        }
    }
}

#[derive(Default)]
struct Builder {
    ids: Vec<TokenId>,
    odd: Vec<(usize, String)>,
}

impl Builder {
    fn push(&mut self, item: &Bound<'_, PyAny>) -> PyResult<()> {
        look(item.py(), self.ids.len())?;
        match item.extract::<TokenId>() {
            Ok(id) => self.ids.push(id),
            Err(error) if error.is_instance_of::<PyOverflowError>(item.py()) => {
                // Python refuses to write out very long ints.
                let text = match item.str() {
                    Ok(text) => text.to_string_lossy().into_owned(),
                    Err(error) if error.is_instance_of::<PyValueError>(item.py()) => {
                        "an int too long to write".into()
                    }
                    Err(error) => return Err(error),
                };
                self.odd(text);
            }
            Err(error) if error.is_instance_of::<PyTypeError>(item.py()) => {
                if item.get_type().hasattr("__index__")? {
                    return Err(error);
                }
                return Err(no_int(&format!("ids[{}]", self.ids.len()), item));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn odd(&mut self, text: String) {
        self.odd.push((self.ids.len(), text));
        self.ids.push(-1);
    }

    fn build(self) -> Ids {
        if self.odd.is_empty() { Ids::Many(self.ids) } else { Ids::Odd(self.ids, self.odd) }
    }
}

fn from_tuple(items: &Bound<'_, PyTuple>) -> PyResult<Ids> {
    let mut builder = Builder { ids: Vec::with_capacity(items.len()), ..Builder::default() };
    for item in items.iter_borrowed() {
        builder.push(&item)?;
    }
    Ok(builder.build())
}

fn from_buffer(obj: &Bound<'_, PyAny>) -> Option<PyResult<Ids>> {
    if !has_buffer(obj) {
        return None;
    }
    let buffer = match PyUntypedBuffer::get(obj) {
        Ok(buffer) => buffer,
        // The binding reports zero dimensions for a NumPy scalar, which is also an int.
        Err(error)
            if error.is_instance_of::<PyBufferError>(obj.py())
                && error.value(obj.py()).to_string() == "shape is null" =>
        {
            return None;
        }
        Err(error) => return Some(Err(error)),
    };
    match buffer.dimensions() {
        // A NumPy scalar: it is an int, too.
        0 => return None,
        1 => {}
        _ => return Some(Err(PyValueError::new_err("ids must have one dimension"))),
    }
    if matches!(buffer.format().to_bytes().first(), Some(b'>' | b'!')) {
        // Of foreign byte order: its items know their values.
        return None;
    }
    if let Ok(typed) = buffer.as_typed::<i32>() {
        return Some(typed.to_vec(obj.py()).map(Ids::Many));
    }
    let typed = buffer.as_typed::<i64>().ok()?;
    Some(typed.to_vec(obj.py()).map(|items| {
        let mut builder = Builder::default();
        for item in items {
            match TokenId::try_from(item) {
                Ok(id) => builder.ids.push(id),
                Err(_) => builder.odd(item.to_string()),
            }
        }
        builder.build()
    }))
}

impl<'py> FromPyObject<'_, 'py> for Ids {
    type Error = PyErr;

    #[cfg(feature = "testing")]
    const INPUT_TYPE: pyo3::inspect::PyStaticExpr = {
        use pyo3::{type_hint_identifier, type_hint_subscript, type_hint_union};
        type_hint_union!(
            type_hint_identifier!("typing", "SupportsIndex"),
            type_hint_subscript!(
                type_hint_identifier!("collections.abc", "Iterable"),
                type_hint_identifier!("typing", "SupportsIndex")
            ),
            type_hint_identifier!("typing_extensions", "Buffer"),
            <Encoding as pyo3::type_object::PyTypeInfo>::TYPE_HINT
        )
    };

    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let expected = || no_int("ids", &obj);
        if obj.is_instance_of::<PyInt>() {
            if let Ok(id) = obj.extract::<TokenId>() {
                return Ok(Self::One(id));
            }
            let mut builder = Builder::default();
            builder.push(&obj)?;
            return Ok(builder.build());
        }
        if let Ok(list) = obj.cast::<PyList>() {
            // A tuple is a snapshot: its items can be borrowed, whatever happens to the list.
            return from_tuple(&list.to_tuple());
        }
        if let Ok(tuple) = obj.cast::<PyTuple>() {
            return from_tuple(&tuple);
        }
        if let Ok(array) = obj.cast::<IntArray>()
            && let Some(ids) = array.get().as_ids()
        {
            return Ok(Self::Shared(ids.clone()));
        }
        if let Ok(encoding) = obj.cast::<Encoding>() {
            return Ok(Self::Shared(encoding.get().inner().shared_ids()));
        }
        if is_no_ids(&obj) {
            return Err(expected());
        }
        if let Some(ids) = from_buffer(&obj) {
            return ids;
        }
        let mut builder = Builder::default();
        let has = |name| obj.get_type().hasattr(name);
        if !has("__iter__")? && !has("__getitem__")? && !has("__index__")? {
            _Panics::check(&obj);
            return Err(expected());
        }
        let items = match obj.try_iter() {
            Ok(items) => items,
            // NumPy's scalars and arrays without dimensions are ints, although they look like
            // sequences.
            Err(error) if error.is_instance_of::<PyTypeError>(obj.py()) && has("__index__")? => {
                builder.push(&obj)?;
                return Ok(builder.build());
            }
            Err(error) => return Err(error),
        };
        for item in items {
            builder.push(&item?)?;
        }
        Ok(builder.build())
    }
}

/// The error of a value in the place of ids, with what makes ids of it.
fn no_int(place: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let kind = value.get_type().name().map_or_else(|_| String::new(), |kind| kind.to_string());
    let advice = if value.is_instance_of::<PyString>() {
        "; `Vocab.encode` makes ids of text"
    } else if value.is_instance_of::<PyDict>() {
        "; `Codec.encode` makes ids of messages"
    } else {
        ""
    };
    let expected = if place == "ids" { "an int, ints, or a buffer of ints" } else { "an int" };
    PyTypeError::new_err(format!("{place}: is `{kind}`, expected {expected}{advice}"))
}

/// A value as an int of 64 bits, if it is one; raises the exception of its `__index__`.
pub(crate) fn int_of(value: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    let py = value.py();
    match value.extract() {
        Ok(int) => Ok(Some(int)),
        Err(error) if error.is_instance_of::<PyOverflowError>(py) => Ok(None),
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            if value.get_type().hasattr("__index__")? { Err(error) } else { Ok(None) }
        }
        Err(error) => Err(error),
    }
}

/// Text, bytes, and collections without order: iterable, but never ids.
fn is_no_ids(obj: &Bound<'_, PyAny>) -> bool {
    obj.is_instance_of::<PyString>()
        || obj.is_instance_of::<PyBytes>()
        || obj.is_instance_of::<PyByteArray>()
        || obj.is_instance_of::<PyDict>()
        || obj.is_instance_of::<PySet>()
        || obj.is_instance_of::<PyFrozenSet>()
}

/// The text of a Python string; half of a surrogate pair is a `MessageError` at `path`.
pub(crate) fn text<'a>(text: &'a Bound<'_, PyString>, path: &str) -> PyResult<&'a str> {
    text.to_str().map_err(|cause| {
        let message = format!("`{path}` holds half of a surrogate pair, expected text");
        let error = MessageError::new_err((message, path.to_owned()));
        error.set_cause(text.py(), Some(cause));
        error
    })
}

/// Number of characters of a long text that become UTF-8 at once: some are ASCII alone, which costs nothing.
const STEP: usize = 1 << 11;

/// [`text`] for text that may be long. The interpreter keeps the UTF-8 of a string as long as the string, and makes it
/// in four to six times as much memory; that of a long one is made here step by step instead.
pub(crate) fn long_text<'a>(given: &'a Bound<'_, PyString>, path: &str) -> PyResult<Cow<'a, str>> {
    let count = given.len()?;
    let is_short = count < LONG_TEXT || !given.is_exact_instance_of::<PyString>();
    // The interpreter has the UTF-8 of ASCII already.
    if is_short || given.call_method0("isascii")?.is_truthy()? {
        return text(given, path).map(Cow::Borrowed);
    }
    let mut copy = String::new();
    for start in (0..count).step_by(STEP) {
        let end = count.min(start + STEP);
        let slice = PySlice::new(given.py(), start as isize, end as isize, 1);
        let slice = given.as_any().get_item(slice)?;
        let part = text(slice.cast()?, path)?;
        if copy.capacity() - copy.len() < part.len() {
            // As if the rest had as many bytes a character.
            let done = copy.len() + part.len();
            let expected = (done as u128 * count as u128 / end as u128) as usize;
            let more = (expected + expected / 16 - copy.len()).max(copy.len() / 4);
            make_text_room(&mut copy, more);
        }
        copy.push_str(part);
    }
    Ok(Cow::Owned(copy))
}

/// The argument "threads": how many may take part, of which no number is too large.
#[derive(Clone, Copy)]
pub(crate) struct Threads(pub(crate) usize);

impl<'py> FromPyObject<'_, 'py> for Threads {
    type Error = PyErr;

    #[cfg(feature = "testing")]
    const INPUT_TYPE: pyo3::inspect::PyStaticExpr = usize::INPUT_TYPE;

    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match obj.extract() {
            Ok(threads) => Ok(Self(threads)),
            Err(error) if !error.is_instance_of::<PyOverflowError>(obj.py()) => Err(error),
            Err(_) if obj.lt(0)? => {
                let message = format!("threads={}, expected 0 or more, or None", obj.repr()?);
                Err(PyValueError::new_err(message))
            }
            Err(_) => Ok(Self(usize::MAX)),
        }
    }
}
