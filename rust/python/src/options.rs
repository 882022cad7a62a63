//! The options of `encode` and of what encodes, read and checked.

use chatcodec::{
    Boundary, Clock, EncodeOptions, Format as CoreFormat, Markup, OnArguments, OnDependent,
    OnMarker, OnUnknown, OnUnsupported, Owned, ReadOptions, Template as CoreTemplate,
    TemplateOptions,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::errors::{quoted, raise};
use crate::media::{MEDIA_TOKENS, counter};
use crate::node::{Raised, Value};

/// The options of `encode`, read and checked.
pub(crate) struct Options<'py> {
    pub(crate) encode: EncodeOptions,
    pub(crate) read: ReadOptions,
    /// The caller's function that counts the ids of images and other parts.
    pub(crate) counter: Option<Bound<'py, PyAny>>,
}

impl<'py> Options<'py> {
    pub(crate) fn new(
        (format, template): (&CoreFormat, Option<&CoreTemplate>),
        add_generation_prompt: Option<bool>,
        (continue_final, stop_final): (bool, bool),
        words: [(&str, &str); 6],
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Self> {
        let counter = counter(options)?;
        let (mut thinking, mut date, mut effort) = (None, None, None);
        let of_format = options.filter(|_| template.is_none());
        let template = match template {
            Some(template) => template_options(template, options)?,
            None => TemplateOptions::default(),
        };
        for (option, value) in of_format.into_iter().flatten() {
            let known = format.options();
            let wrong = |expected: &str| {
                let kind = value.get_type();
                let kind = kind.name().map_or_else(|_| String::new(), |name| name.to_string());
                PyTypeError::new_err(format!("{option}: is `{kind}`, expected {expected} or None"))
            };
            let text = || value.extract::<Option<String>>().map_err(|_| wrong("a string"));
            let option = option.to_string();
            match option.as_str() {
                MEDIA_TOKENS => {}
                name if !known.contains(&name) => {
                    let (name, known) = (format.name(), known.join("`, `"));
                    let known =
                        if known.is_empty() { "no options".into() } else { format!("`{known}`") };
                    let (option, name) = (chatcodec::place(&option), chatcodec::place(name));
                    let message =
                        format!("unexpected option `{option}`: format `{name}` declares {known}");
                    return Err(PyTypeError::new_err(message));
                }
                "date" => date = text()?,
                "effort" => effort = text()?,
                _ => thinking = value.extract().map_err(|_| wrong("True, False"))?,
            }
        }
        let choose = |(name, word): (&str, &str), known: &[&str]| {
            known.iter().position(|known| *known == word).ok_or_else(|| {
                let known = known.join("\", \"");
                let word = quoted(word);
                PyValueError::new_err(format!("{name}={word}, expected one of \"{known}\""))
            })
        };
        let [on_marker, boundary, on_arguments, unknown, on_unsupported, markup] = words;
        let markers = [OnMarker::Report, OnMarker::Error, OnMarker::Break];
        let boundaries = [Boundary::Reference, Boundary::Isolated];
        let policies = [OnArguments::Error, OnArguments::String];
        let unknowns = [OnUnknown::Error, OnUnknown::Ignore];
        let unsupported = [OnUnsupported::Error, OnUnsupported::Drop];
        let markups = [Markup::Text, Markup::Parse, Markup::Error];
        let on_unsupported = unsupported[choose(on_unsupported, &["error", "drop"])?];
        Ok(Self {
            encode: EncodeOptions {
                add_generation_prompt,
                continue_final,
                stop_final,
                thinking,
                date,
                effort,
                boundary: boundaries[choose(boundary, &["reference", "isolated"])?],
                on_marker: markers[choose(on_marker, &["report", "error", "break"])?],
                on_unsupported,
                threads: 1,
                template,
            },
            read: ReadOptions {
                on_arguments: policies[choose(on_arguments, &["error", "string"])?],
                on_unknown: unknowns[choose(unknown, &["error", "ignore"])?],
                on_unsupported,
                markup: markups[choose(markup, &["text", "parse", "error"])?],
            },
            counter,
        })
    }
}

/// The options of a template: its variables by name, and `on_dependent`.
fn template_options(
    template: &CoreTemplate,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<TemplateOptions> {
    let mut read = TemplateOptions::default();
    for (option, value) in options.into_iter().flatten() {
        let option = option.to_string();
        match option.as_str() {
            MEDIA_TOKENS => {}
            "on_dependent" => {
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
                }
            }
            // None for a variable that the template does not use is as if it was not given.
            _ if value.is_none() && !template.mentions(&option) => {}
            _ => {
                let synonyms: &[&str] = match option.as_str() {
                    "thinking" => &["thinking", "enable_thinking"],
                    "effort" => &["effort", "reasoning_effort"],
                    "date" => &["date", "date_string"],
                    _ => &[],
                };
                let names = std::iter::once(option.as_str()).chain(synonyms.iter().copied());
                let Some(name) = names.into_iter().find(|name| template.mentions(name)) else {
                    let option = chatcodec::place(&option);
                    let message =
                        format!("unexpected option `{option}`: the template has no such variable");
                    return Err(PyTypeError::new_err(message));
                };
                let raised = Raised::default();
                let value = Owned::new(name, &Value::new(&value, &raised));
                raised.check()?;
                read.variables.push((name.to_owned(), value.map_err(raise)?));
            }
        }
    }
    if template.mentions("strftime_now") {
        read.clock = Some(Python::attach(local_time)?);
    }
    Ok(read)
}

/// The local time.
fn local_time(py: Python<'_>) -> PyResult<Clock> {
    let now = py.import("datetime")?.getattr("datetime")?.call_method0("now")?;
    let number = |name: &str| now.getattr(name)?.extract::<u32>();
    let time = (number("hour")?, number("minute")?, number("second")?);
    let year = i64::from(number("year")?);
    Ok(Clock { year, month: number("month")?, day: number("day")?, time })
}

/// The options whose values are words, by name.
pub(crate) fn words<'a>(
    on_marker: &'a str,
    boundary: &'a str,
    on_arguments: &'a str,
    unknown: &'a str,
    on_unsupported: &'a str,
    markup: &'a str,
) -> [(&'static str, &'a str); 6] {
    [
        ("on_marker", on_marker),
        ("boundary", boundary),
        ("on_arguments", on_arguments),
        ("unknown", unknown),
        ("on_unsupported", on_unsupported),
        ("markup", markup),
    ]
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
