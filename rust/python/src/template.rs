//! `Template` and `Rendered`.

use std::path::PathBuf;

use chatcodec::{
    Owned, RenderOptions, RenderedTemplate, Template as CoreTemplate, TemplateSource, place,
};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyString, PyTuple};

use crate::away::in_place;
use crate::encoding::no_pickle;
use crate::errors::{TemplateError, raise, raise_of};
use crate::files;
use crate::node::{Raised, Value};

/// Runs of a rendered text: start, end, path, message.
type Runs = Vec<(usize, usize, Option<String>, Option<i32>)>;

/// A chat template, in jinja2's language as transformers runs it. Frozen, shared freely between threads.
///
/// `special_tokens` are strings by the names that the template has for them, `pad_token`, and count as the template's
/// own text. Raises `TemplateError` with line and column where the source is no template, or uses what is not
/// supported.
#[pyclass(module = "chatcodec._core", frozen)]
pub(crate) struct Template {
    inner: CoreTemplate,
    source: String,
    own: Vec<(String, String)>,
}

impl Template {
    /// A template of a model's folder, with its special tokens.
    pub(crate) fn of_folder(source: &TemplateSource, own: &[(String, String)]) -> PyResult<Self> {
        let TemplateSource { file, text, .. } = source;
        let inner = CoreTemplate::parse(text).map_err(|error| raise_of(error, file))?;
        Ok(Self { inner, source: text.to_owned(), own: own.to_vec() })
    }

    pub(crate) fn inner(&self) -> &CoreTemplate {
        &self.inner
    }

    /// Special tokens, by the names that the template has for them.
    pub(crate) fn own(&self) -> &[(String, String)] {
        &self.own
    }

    fn parse(
        source: &str,
        bos_token: Option<&Bound<'_, PyAny>>,
        eos_token: Option<&Bound<'_, PyAny>>,
        special_tokens: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut own = Vec::new();
        let named = [("bos_token", bos_token), ("eos_token", eos_token)];
        for (name, token) in named.into_iter().filter_map(|(name, token)| Some((name, token?))) {
            own.extend(spelling(name, token)?.map(|text| (name.to_owned(), text)));
        }
        for (name, token) in special_tokens.into_iter().flatten() {
            let name = name.to_string();
            own.extend(spelling(&name, &token)?.map(|text| (name, text)));
        }
        let inner = CoreTemplate::parse(source).map_err(raise)?;
        Ok(Self { inner, source: source.to_owned(), own })
    }
}

/// The text of a special token: a string, or a mapping with `content`, as the files of models have it.
fn spelling(name: &str, token: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if token.is_none() {
        return Ok(None);
    }
    let content = match token.cast::<PyDict>() {
        Ok(dict) => dict.get_item("content")?,
        Err(_) => Some(token.clone()),
    };
    if let Some(text) = content.as_ref().and_then(|text| text.cast::<PyString>().ok()) {
        return Ok(Some(text.to_str()?.to_owned()));
    }
    let kind = token.get_type().name()?;
    let problem = format!("{}: is `{kind}`, expected a string", place(name));
    Err(pyo3::exceptions::PyTypeError::new_err(problem))
}

#[pymethods]
impl Template {
    #[new]
    #[pyo3(signature = (
        source: "str",
        *,
        bos_token: "str | Mapping[str, object] | None" = None,
        eos_token: "str | Mapping[str, object] | None" = None,
        **special_tokens: "str | Mapping[str, object] | None",
    ))]
    fn new(
        source: &str,
        bos_token: Option<&Bound<'_, PyAny>>,
        eos_token: Option<&Bound<'_, PyAny>>,
        special_tokens: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        Self::parse(source, bos_token, eos_token, special_tokens)
    }

    /// Reads a template from a file of UTF-8 text. Raises `TemplateError`; `OSError` where there is nothing.
    #[staticmethod]
    #[pyo3(signature = (
        path: "str | PathLike[str]",
        *,
        bos_token: "str | Mapping[str, object] | None" = None,
        eos_token: "str | Mapping[str, object] | None" = None,
        **special_tokens: "str | Mapping[str, object] | None",
    ))]
    fn load(
        path: PathBuf,
        bos_token: Option<&Bound<'_, PyAny>>,
        eos_token: Option<&Bound<'_, PyAny>>,
        special_tokens: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let bytes = files::read(&path, CoreTemplate::MAX_SOURCE_BYTES as u64)
            .map_err(|failure| failure.of_template(&path))?;
        let source = String::from_utf8(bytes).map_err(|_| {
            let name = path.display().to_string();
            TemplateError::new_err((format!("template `{}`: is not UTF-8", place(&name)), 0, 0))
        })?;
        Self::parse(&source, bos_token, eos_token, special_tokens)
    }

    /// The text that the template makes of messages, with the source of each part of it. Messages and tools are lists
    /// of dicts, as clients send them; `variables` are the template's others by name, `enable_thinking=False`.
    /// Raises `TemplateError`, and `MessageError` where the template itself refuses the messages.
    #[pyo3(signature = (
        messages: "list[Mapping[str, object]] | Sequence[Mapping[str, object]]",
        tools: "Sequence[object] | None" = None,
        *,
        add_generation_prompt: "bool" = false,
        **variables: "object",
    ))]
    fn render(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        add_generation_prompt: bool,
        variables: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Rendered> {
        let raised = Raised::default();
        // A copy, so that the template runs without the interpreter.
        let owned = |name: &str, value: &Bound<'_, PyAny>| {
            let copy = Owned::new(name, &Value::new(value, &raised));
            raised.check()?;
            copy.map_err(raise)
        };
        let messages = owned("messages", messages)?;
        let mut named: Vec<(String, Owned)> = Vec::new();
        if let Some(tools) = tools {
            named.push(("tools".into(), owned("tools", tools)?));
        }
        for (name, value) in variables.into_iter().flatten() {
            let name = name.to_string();
            let value = owned(&name, &value)?;
            named.push((name, value));
        }
        let render = || {
            let named: Vec<(&str, &Owned)> =
                named.iter().map(|(name, value)| (name.as_str(), value)).collect();
            let named: Vec<(&str, &&Owned)> =
                named.iter().map(|(name, value)| (*name, value)).collect();
            let now = |format: &str| Python::attach(|py| strftime(py, format).ok());
            let options = RenderOptions { add_generation_prompt, own: &self.own, now: &now };
            self.inner.render(&&messages, &named, &options)
        };
        Ok(Rendered { inner: in_place(py, render)?.map_err(raise)? })
    }

    /// The source, as it was given.
    #[getter]
    fn source(&self) -> &str {
        &self.source
    }

    /// The names of variables that the template uses, its own among them.
    #[getter]
    fn names(&self) -> std::collections::BTreeSet<String> {
        self.inner.names().map(str::to_owned).collect()
    }

    #[pyo3(signature = () -> "tuple[object, ...]")]
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let (py, this) = (slf.py(), slf.get());
        let own = PyDict::new(py);
        for (name, text) in &this.own {
            own.set_item(name, text)?;
        }
        // Special tokens are named arguments, so the class is called by a partial.
        let partial = py.import("functools")?.getattr("partial")?;
        let made = partial.call((slf.get_type(),), Some(&own))?;
        PyTuple::new(py, [made, PyTuple::new(py, [&this.source])?.into_any()])
    }

    fn __repr__(&self) -> String {
        format!("Template({} characters)", self.source.chars().count())
    }
}

/// The local time by a format, as templates ask for it.
fn strftime(py: Python<'_>, format: &str) -> PyResult<String> {
    let now = py.import("datetime")?.getattr("datetime")?.call_method0("now")?;
    now.call_method1("strftime", (format,))?.extract()
}

/// A rendered template. Frozen.
#[pyclass(module = "chatcodec._core", frozen)]
pub(crate) struct Rendered {
    inner: RenderedTemplate,
}

impl Rendered {
    /// The code points before each byte.
    fn points(&self) -> impl Fn(usize) -> usize {
        let text = self.inner.text();
        let mut before = Vec::with_capacity(text.len() + 1);
        let mut count = 0;
        for at in 0..text.len() {
            count += usize::from(text.is_char_boundary(at));
            before.push(count - 1);
        }
        before.push(count);
        move |at: usize| before.get(at).copied().unwrap_or(count)
    }
}

#[pymethods]
impl Rendered {
    /// Raises `TypeError`: a rendered conversation cannot be pickled, as it holds the conversation.
    #[pyo3(signature = () -> "tuple[object, ...]")]
    #[expect(clippy::unused_self, reason = "the protocol's signature")]
    fn __reduce__(&self) -> PyResult<()> {
        Err(no_pickle("Rendered", "`rendered.text`, `rendered.runs`"))
    }

    /// The text.
    #[getter]
    fn text(&self) -> &str {
        self.inner.text()
    }

    /// The parts of the text in order, each a tuple: start and end in code points; the path of the caller's value that
    /// it comes from, `"messages[1].content"`, or None for the template's own text; and the index of the message that
    /// it belongs to, or None.
    #[getter]
    fn runs(&self) -> Runs {
        let point = self.points();
        let runs = self.inner.runs().into_iter();
        runs.map(|run| {
            let message = Some(run.message).filter(|message| *message >= 0);
            (point(run.text.start), point(run.text.end), run.path, message)
        })
        .collect()
    }

    /// What `{% generation %}` blocks wrote: pairs of start and end in code points.
    #[getter]
    fn generated(&self) -> Vec<(usize, usize)> {
        let point = self.points();
        self.inner.generated().iter().map(|range| (point(range.start), point(range.end))).collect()
    }

    fn __repr__(&self) -> String {
        format!("Rendered({} characters)", self.inner.text().chars().count())
    }
}
