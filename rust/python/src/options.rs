//! The options of `encode`, and of every method that takes them.
//!
//! In: the keyword arguments of a call. Out: [`Options`], read and checked. Each option has one line in
//! [`Options::set`]; its type for callers is in `chatcodec.options`.

use chatcodec::{
    Boundary, Clock, EncodeOptions, Format as CoreFormat, Markup, OnArguments, OnDependent,
    OnMarker, OnReasoning, OnUnknown, OnUnsupported, Owned, ReadOptions, Template as CoreTemplate,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyString};

use crate::errors::{quoted, raise};
use crate::ids::Threads;
use crate::media::{MEDIA_TOKENS, counter};
use crate::node::{Raised, Value};

/// What writes conversations: a format, or a template before it.
pub(crate) type Writer<'a> = (&'a CoreFormat, Option<&'a CoreTemplate>);

/// The names of the options that all formats have; `tools` is the first.
const NAMES: [&str; 12] = [
    "tools",
    "add_generation_prompt",
    "continue_final",
    "stop_final",
    "on_marker",
    "boundary",
    "on_arguments",
    "unknown",
    "on_unsupported",
    "markup",
    "threads",
    MEDIA_TOKENS,
];

/// What differs between the methods that take the options.
pub(crate) struct Method {
    /// Whether `tools` is one of the options.
    pub(crate) has_tools: bool,
    pub(crate) on_unknown: OnUnknown,
    pub(crate) markup: Markup,
}

impl Method {
    /// `encode` itself.
    pub(crate) const ENCODE: Self =
        Self { has_tools: true, on_unknown: OnUnknown::Error, markup: Markup::Text };
    /// `encode_batch`, whose conversations may be rows with other columns.
    pub(crate) const BATCH: Self = Self { on_unknown: OnUnknown::Ignore, ..Self::ENCODE };
    /// `extend`, whose prompt has the tools.
    pub(crate) const EXTEND: Self = Self { has_tools: false, ..Self::ENCODE };

    /// The names of the options that the method takes in all formats.
    fn names(&self) -> &'static [&'static str] {
        if self.has_tools { &NAMES } else { &NAMES[1..] }
    }
}

/// The options of `encode`, read and checked.
pub(crate) struct Options<'py> {
    pub(crate) tools: Option<Bound<'py, PyAny>>,
    pub(crate) encode: EncodeOptions,
    pub(crate) read: ReadOptions,
    pub(crate) threads: Option<Threads>,
    /// The caller's function that counts the ids of images and other parts.
    pub(crate) counter: Option<Bound<'py, PyAny>>,
}

impl<'py> Options<'py> {
    /// Reads the keyword arguments of a call.
    ///
    /// Raises `TypeError` for an unknown name or a value of another type, `ValueError` for an unknown word.
    pub(crate) fn read(
        writer: Writer<'_>,
        given: Option<&Bound<'py, PyDict>>,
        method: &Method,
    ) -> PyResult<Self> {
        let read = ReadOptions {
            on_unknown: method.on_unknown,
            markup: method.markup,
            ..ReadOptions::default()
        };
        let encode = EncodeOptions { threads: 1, ..EncodeOptions::default() };
        let mut options = Self { tools: None, encode, read, threads: None, counter: None };
        for (name, value) in given.into_iter().flatten() {
            let name = name.cast::<PyString>()?.to_string_lossy();
            if options.set(&name, &value, method)? {
                continue;
            }
            match writer {
                (format, None) => options.set_of_format(&name, &value, format, method)?,
                (_, Some(template)) => {
                    options.set_of_template(&name, &value, template, method)?;
                }
            }
        }
        if writer.1.is_some_and(|template| template.mentions("strftime_now")) {
            options.encode.template.clock = Some(Python::attach(local_time)?);
        }
        Ok(options)
    }

    /// Sets an option that all formats have; false for another name.
    fn set(&mut self, name: &str, value: &Bound<'py, PyAny>, method: &Method) -> PyResult<bool> {
        let Self { encode, read, .. } = self;
        match name {
            "tools" if method.has_tools => {
                self.tools = Some(value.clone()).filter(|tools| !tools.is_none());
            }
            "add_generation_prompt" => {
                let wrong = |_| wrong_type(name, value, "True, False or None");
                encode.add_generation_prompt = value.extract().map_err(wrong)?;
            }
            "continue_final" => encode.continue_final = flag(name, value)?,
            "stop_final" => encode.stop_final = flag(name, value)?,
            "on_marker" => {
                let known = [
                    ("report", OnMarker::Report),
                    ("error", OnMarker::Error),
                    ("break", OnMarker::Break),
                ];
                encode.on_marker = word_of(name, value, &known)?;
            }
            "boundary" => {
                let known = [("reference", Boundary::Reference), ("isolated", Boundary::Isolated)];
                encode.boundary = word_of(name, value, &known)?;
            }
            "on_arguments" => {
                let known = [("error", OnArguments::Error), ("string", OnArguments::String)];
                read.on_arguments = word_of(name, value, &known)?;
            }
            "unknown" => {
                let known = [("error", OnUnknown::Error), ("ignore", OnUnknown::Ignore)];
                read.on_unknown = word_of(name, value, &known)?;
            }
            "on_unsupported" => {
                let known = [("error", OnUnsupported::Error), ("drop", OnUnsupported::Drop)];
                read.on_unsupported = word_of(name, value, &known)?;
                encode.on_unsupported = read.on_unsupported;
            }
            "markup" if value.is_none() => read.markup = method.markup,
            "markup" => {
                let known =
                    [("text", Markup::Text), ("parse", Markup::Parse), ("error", Markup::Error)];
                read.markup = word_of(name, value, &known)?;
            }
            "threads" => self.threads = value.extract()?,
            MEDIA_TOKENS => self.counter = counter(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Sets an option that the format declares.
    fn set_of_format(
        &mut self,
        name: &str,
        value: &Bound<'py, PyAny>,
        format: &CoreFormat,
        method: &Method,
    ) -> PyResult<()> {
        let known = format.options();
        // The names that templates have for what a format declares.
        let declared = match name {
            "enable_thinking" => "thinking",
            "reasoning_effort" => "effort",
            "date_string" => "date",
            name => name,
        };
        if !known.contains(&declared) {
            let known = match known.join("`, `") {
                known if known.is_empty() => "no options".into(),
                known => format!("`{known}`"),
            };
            let (name, format) = (chatcodec::place(name), chatcodec::place(format.name()));
            let message = format!(
                "unexpected option `{name}`: format `{format}` declares {known} beside `{}`",
                method.names().join("`, `")
            );
            return Err(PyTypeError::new_err(message));
        }
        let text = || value.extract().map_err(|_| wrong_type(name, value, "a string or None"));
        match declared {
            "date" => self.encode.date = text()?,
            "effort" => self.encode.effort = text()?,
            _ => {
                let wrong = |_| wrong_type(name, value, "True, False or None");
                self.encode.thinking = value.extract().map_err(wrong)?;
            }
        }
        Ok(())
    }

    /// Sets an option of a codec whose template writes: `on_dependent`, or a variable of the template.
    fn set_of_template(
        &mut self,
        name: &str,
        value: &Bound<'py, PyAny>,
        template: &CoreTemplate,
        method: &Method,
    ) -> PyResult<()> {
        let read = &mut self.encode.template;
        if name == "on_dependent" {
            read.on_dependent = match value.extract::<String>().as_deref() {
                Ok("text") => OnDependent::Text,
                Ok("template") => OnDependent::Template,
                Ok("error") => OnDependent::Error,
                _ => {
                    let given = quoted(&value.str()?.to_string_lossy());
                    let message = format!(
                        "on_dependent={given}, expected \"text\", \"template\" or \"error\""
                    );
                    return Err(PyValueError::new_err(message));
                }
            };
            return Ok(());
        }
        // None for a variable that the template does not use is as if it was not given.
        if value.is_none() && !template.mentions(name) {
            return Ok(());
        }
        let synonyms: &[&str] = match name {
            "thinking" | "enable_thinking" => &["thinking", "enable_thinking"],
            "effort" | "reasoning_effort" => &["effort", "reasoning_effort"],
            "date" | "date_string" => &["date", "date_string"],
            _ => &[],
        };
        let names = std::iter::once(name).chain(synonyms.iter().copied());
        let Some(variable) = names.into_iter().find(|name| template.mentions(name)) else {
            let name = chatcodec::place(name);
            let message = format!(
                "unexpected option `{name}`: the template has no such variable, nor is it one of `{}`",
                method.names().join("`, `")
            );
            return Err(PyTypeError::new_err(message));
        };
        let raised = Raised::default();
        let value = Owned::new(variable, &Value::new(value, &raised));
        raised.check()?;
        read.variables.push((variable.to_owned(), value.map_err(raise)?));
        Ok(())
    }
}

/// The error of an option with a value of another type.
fn wrong_type(name: &str, value: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    let kind = value.get_type();
    let kind = kind.name().map_or_else(|_| String::new(), |kind| kind.to_string());
    PyTypeError::new_err(format!("{name}: is `{kind}`, expected {expected}"))
}

/// A bool.
fn flag(name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.extract().map_err(|_| wrong_type(name, value, "True or False"))
}

/// The meaning of a word of a closed set.
fn word_of<T: Copy>(name: &str, value: &Bound<'_, PyAny>, known: &[(&str, T)]) -> PyResult<T> {
    let Ok(given) = value.cast::<PyString>() else {
        return Err(wrong_type(name, value, "a string"));
    };
    word(name, &given.to_string_lossy(), known)
}

/// The meaning of a word of a closed set.
fn word<T: Copy>(name: &str, given: &str, known: &[(&str, T)]) -> PyResult<T> {
    let found = known.iter().find(|(word, _)| *word == given);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let known: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        let (given, known) = (quoted(given), known.join("\", \""));
        PyValueError::new_err(format!("{name}={given}, expected one of \"{known}\""))
    })
}

/// The option `reasoning` of `extend`.
pub(crate) fn on_reasoning(given: &str) -> PyResult<OnReasoning> {
    let known = [("keep", OnReasoning::Keep), ("template", OnReasoning::Template)];
    word("reasoning", given, &known)
}

/// Whether each answer is written as it was when it was last, as the option `history` says.
pub(crate) fn appends(given: &str) -> PyResult<bool> {
    word("history", given, &[("template", false), ("append", true)])
}

/// The local time.
fn local_time(py: Python<'_>) -> PyResult<Clock> {
    let now = py.import("datetime")?.getattr("datetime")?.call_method0("now")?;
    let number = |name: &str| now.getattr(name)?.extract::<u32>();
    let time = (number("hour")?, number("minute")?, number("second")?);
    let year = i64::from(number("year")?);
    Ok(Clock { year, month: number("month")?, day: number("day")?, time })
}

/// Whether the first error of a batch is raised, as the option `errors` says.
pub(crate) fn raises(errors: &str) -> PyResult<bool> {
    match errors {
        "raise" => Ok(true),
        "return" => Ok(false),
        _ => {
            let errors = quoted(errors);
            let message = format!("errors={errors}, expected \"raise\" or \"return\"");
            Err(PyValueError::new_err(message))
        }
    }
}
