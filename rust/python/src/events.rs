//! Events as frozen Python classes, made for `match`.

use chatcodec::{
    ActionKind, Event, EventKind, MediaKind, Message, NoticeKind, Part, Plain, Role, TurnReason,
    Vocab,
};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyList, PyTuple};

use crate::away::look;
use crate::errors::quoted;
use crate::node::message_dict;
use crate::texts::{Str, Texts};
use crate::typed::MessageDict;
use crate::words::{CallKindWord, MediaKindWord, NoticeKindWord, RoleWord, TurnReasonWord};

/// Declares an event class: its fields, `tokens`, equality, hash, `repr`, `match` and pickling. The signature is
/// written out: the macros of the binding show no tuple as a default.
macro_rules! event_class {
    ($(#[$meta:meta])* $name:ident $signature:literal { $($(#[$field_meta:meta])* $field:ident: $type:ty = $hint:literal $(or $default:ident)?),+ $(,)? }) => {
        $(#[$meta])*
        #[pyclass(module = "chatcodec._core", frozen, eq, hash, get_all)]
        #[derive(PartialEq, Eq, Hash)]
        pub(crate) struct $name {
            $($(#[$field_meta])* $field: $type,)+
            /// Positions of the ids of the event: first, and one past the last.
            tokens: (u32, u32),
        }

        #[pymethods]
        impl $name {
            #[classattr]
            fn __match_args__(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
                PyTuple::new(py, [$(stringify!($field)),+])
            }

            #[new]
            #[pyo3(
                signature = ($($field: $hint $(= $default)?,)+ tokens: "tuple[int, int]" = (0, 0)),
                text_signature = $signature
            )]
            fn new($($field: $type,)+ tokens: (u32, u32)) -> Self {
                Self { $($field,)+ tokens }
            }

            fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
                let fields = [$(
                    format!("{}={}", stringify!($field), (&self.$field).into_py_any(py)?.bind(py).repr()?)
                ),+];
                let (start, end) = self.tokens;
                Ok(format!("{}({}, tokens=({start}, {end}))", stringify!($name), fields.join(", ")))
            }

            #[pyo3(signature = () -> "tuple[object, ...]")]
            fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
                let (py, this) = (slf.py(), slf.get());
                let fields = PyTuple::new(py, [
                    $((&this.$field).into_py_any(py)?,)+
                    this.tokens.into_py_any(py)?,
                ])?;
                PyTuple::new(py, [slf.get_type().into_any(), fields.into_any()])
            }
        }
    };
}

event_class! {
    /// Begin of a turn, with its role, and its name if the header has one.
    TurnStart "(role, name=None, channel=None, recipient=None, tokens=(0, 0))" {
        /// `"system"`, `"user"`, `"assistant"` or `"tool"`.
        role: RoleWord = "Role",
        /// The name in the header.
        name: Option<String> = "str | None" or None,
        /// The channel, in formats with channels.
        channel: Option<String> = "str | None" or None,
        /// The recipient, in formats with recipients.
        recipient: Option<String> = "str | None" or None,
    }
}
event_class! {
    /// Text of the turn.
    Text "(text, tokens=(0, 0))" {
        /// The text.
        text: Str = "str",
    }
}
event_class! {
    /// Reasoning of the turn.
    Reasoning "(text, tokens=(0, 0))" {
        /// The text.
        text: Str = "str",
    }
}
event_class! {
    /// An image, a video or audio of the turn: its placeholder ids. An assistant's turn has none.
    Media "(kind, count, rows, tokens=(0, 0))" {
        /// `"image"`, `"video"` or `"audio"`.
        kind: MediaKindWord = "MediaKind",
        /// Number of placeholder ids in a row.
        count: u32 = "int",
        /// Number of rows; 1 in formats that do not separate rows.
        rows: u32 = "int",
    }
}
event_class! {
    /// Begin of a call, emitted as soon as the name is known.
    ActionStart "(index, kind, name=None, id=None, tokens=(0, 0))" {
        /// The number of the call in the turn, from 0.
        index: u32 = "int",
        /// `"function"` or `"code"`.
        kind: CallKindWord = "CallKind",
        /// The function's name, or the code's language.
        name: Option<String> = "str | None" or None,
        /// The id that the model wrote for the call, in formats with call ids.
        id: Option<String> = "str | None" or None,
    }
}
event_class! {
    /// A part of a call: raw JSON text of its arguments, as generated, or code without its fence.
    ActionDelta "(index, text, tokens=(0, 0))" {
        /// The number of the call.
        index: u32 = "int",
        /// The text.
        text: Str = "str",
    }
}
event_class! {
    /// End of a call.
    ActionEnd "(index, complete, name=None, id=None, tokens=(0, 0))" {
        /// The number of the call.
        index: u32 = "int",
        /// Whether the arguments are one whole JSON value, or the code's fence was closed.
        complete: bool = "bool",
        /// The name, which may follow the arguments.
        name: Option<String> = "str | None" or None,
        /// The id that the model wrote for the call.
        id: Option<String> = "str | None" or None,
    }
}
event_class! {
    /// End of a turn.
    TurnEnd "(reason, id=None, tokens=(0, 0))" {
        /// `"stop"`, `"action"`, `"length"`, `"implicit"` or `"cancelled"`.
        reason: TurnReasonWord = "TurnReason",
        /// The id of the call that a result answers, where the format writes it.
        id: Option<String> = "str | None" or None,
    }
}
event_class! {
    /// An irregularity in the input. It is never an error: every id has an event.
    Notice "(kind, text, tokens=(0, 0))" {
        /// `"malformed"`, `"unexpected_control"`, `"unknown_id"`, `"text_after_action"`,
        /// `"duplicate_key"`, `"unknown_key"`, `"trailing"` or `"mended"`.
        kind: NoticeKindWord = "NoticeKind",
        /// The affected text, or the spelling of the token; for `"mended"`, a description of the
        /// mended spelling.
        text: String = "str",
    }
}

/// An event of the core as a Python object.
pub(crate) fn event_object(py: Python<'_>, event: Event) -> PyResult<Bound<'_, PyAny>> {
    let tokens = (event.tokens.start, event.tokens.end);
    Ok(match event.kind {
        EventKind::TurnStart { role, name } => {
            let role = role.name().into();
            let event = TurnStart { role, name, channel: None, recipient: None, tokens };
            Bound::new(py, event)?.into_any()
        }
        EventKind::Text(text) => {
            let text = Str::new(py, &text);
            Bound::new(py, Text { text, tokens })?.into_any()
        }
        EventKind::Reasoning(text) => {
            let text = Str::new(py, &text);
            Bound::new(py, Reasoning { text, tokens })?.into_any()
        }
        EventKind::Media { kind, count, rows } => {
            let kind = kind.name().into();
            Bound::new(py, Media { kind, count, rows, tokens })?.into_any()
        }
        EventKind::ActionStart { index, kind, name, id } => {
            let kind = kind.name().into();
            Bound::new(py, ActionStart { index, kind, name, id, tokens })?.into_any()
        }
        EventKind::ActionDelta { index, text } => {
            let text = Str::new(py, &text);
            Bound::new(py, ActionDelta { index, text, tokens })?.into_any()
        }
        EventKind::ActionEnd { index, complete, name, id } => {
            Bound::new(py, ActionEnd { index, complete, name, id, tokens })?.into_any()
        }
        EventKind::TurnEnd { reason, id } => {
            Bound::new(py, TurnEnd { reason: reason.name().into(), id, tokens })?.into_any()
        }
        EventKind::Notice { kind, text } => {
            Bound::new(py, Notice { kind: kind.name().into(), text, tokens })?.into_any()
        }
    })
}

/// The event of an id that is only text.
pub(crate) fn plain_object<'py>(
    py: Python<'py>,
    plain: &Plain,
    texts: &Texts,
    vocab: &Vocab,
) -> PyResult<Bound<'py, PyAny>> {
    let text = texts.get(py, plain, vocab);
    let tokens = (plain.tokens.start, plain.tokens.end);
    Ok(match plain.part {
        Part::Text => Bound::new(py, Text { text, tokens })?.into_any(),
        Part::Reasoning => Bound::new(py, Reasoning { text, tokens })?.into_any(),
        Part::Action(index) => Bound::new(py, ActionDelta { index, text, tokens })?.into_any(),
    })
}

/// Events as a Python list.
pub(crate) fn event_list(py: Python<'_>, events: Vec<Event>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for (nth, event) in events.into_iter().enumerate() {
        look(py, nth)?;
        list.append(event_object(py, event)?)?;
    }
    Ok(list)
}

/// The core's event of a Python event.
fn event_kind(event: &Bound<'_, PyAny>) -> PyResult<EventKind> {
    let py = event.py();
    let unknown =
        |what: &str, word: &str| PyValueError::new_err(format!("no {what} {}", quoted(word)));
    let action = |word: &str| match word {
        "function" => Ok(ActionKind::Function),
        "code" => Ok(ActionKind::Code),
        _ => Err(unknown("kind of action", word)),
    };
    if let Ok(event) = event.cast::<Text>() {
        return Ok(EventKind::Text(event.get().text.to_owned(py)));
    }
    if let Ok(event) = event.cast::<ActionDelta>() {
        let ActionDelta { index, text, .. } = event.get();
        return Ok(EventKind::ActionDelta { index: *index, text: text.to_owned(py) });
    }
    if let Ok(event) = event.cast::<Reasoning>() {
        return Ok(EventKind::Reasoning(event.get().text.to_owned(py)));
    }
    if let Ok(event) = event.cast::<TurnStart>() {
        let TurnStart { role, name, .. } = event.get();
        let role = Role::parse(role).ok_or_else(|| unknown("role", role))?;
        return Ok(EventKind::TurnStart { role, name: name.clone() });
    }
    if let Ok(event) = event.cast::<Media>() {
        let Media { kind, count, rows, .. } = event.get();
        let kind = MediaKind::parse(kind).ok_or_else(|| unknown("kind of part", kind))?;
        return Ok(EventKind::Media { kind, count: *count, rows: *rows });
    }
    if let Ok(event) = event.cast::<ActionStart>() {
        let ActionStart { index, kind, name, id, .. } = event.get();
        let (name, id) = (name.clone(), id.clone());
        return Ok(EventKind::ActionStart { index: *index, kind: action(kind)?, name, id });
    }
    if let Ok(event) = event.cast::<ActionEnd>() {
        let ActionEnd { index, complete, name, id, .. } = event.get();
        let (name, id) = (name.clone(), id.clone());
        return Ok(EventKind::ActionEnd { index: *index, complete: *complete, name, id });
    }
    if let Ok(event) = event.cast::<TurnEnd>() {
        let TurnEnd { reason, id, .. } = event.get();
        let reason = TurnReason::parse(reason).ok_or_else(|| unknown("reason", reason))?;
        return Ok(EventKind::TurnEnd { reason, id: id.clone() });
    }
    if event.cast::<Notice>().is_ok() {
        return Ok(EventKind::Notice { kind: NoticeKind::Malformed, text: String::new() });
    }
    Err(PyTypeError::new_err("expected an event of chatcodec.events"))
}

/// The message that events describe; the first one, if they describe several.
///
/// Takes the events that `Stream.push` and `Stream.finish` returned, in order. Calls get the ids
/// `call_0…`.
#[pyfunction]
#[pyo3(signature = (events))]
pub(crate) fn collect<'py>(events: &Bound<'py, PyAny>) -> PyResult<MessageDict<'py>> {
    let mut collector = chatcodec::Collector::default();
    for event in events.try_iter()? {
        collector.push(&event_kind(&event?)?);
    }
    let message = collector.into_messages().into_iter().next();
    let mut message = message.unwrap_or_else(|| Message::new(Role::Assistant, ""));
    message.number_calls();
    message_dict(events.py(), &message).map(MessageDict)
}
