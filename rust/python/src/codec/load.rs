//! How a codec is made: of a format or a template, and a vocabulary; and made again of a pickle.

use std::path::PathBuf;
use std::sync::Arc;

use chatcodec::{
    Codec as CoreCodec, Format as CoreFormat, Reader, ResponseTemplate as CoreResponse, TokenId,
    Vocab as CoreVocab, VocabOptions,
};
use pyo3::exceptions::{PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyString, PyTuple};

use super::Codec;
use crate::away::away;
use crate::errors::{FormatError, raise, raise_in};
use crate::format::Format;
use crate::reader::{ReaderGiven, ToldReader, known_reader, told_reader};
use crate::template::Template;
use crate::vocab::{Origin, Vocab, embedded, load};

impl Codec {
    /// A codec of a format or a `Template`, as `Codec` takes them.
    pub(super) fn made(
        format: &Bound<'_, PyAny>,
        vocab: Option<&Bound<'_, PyAny>>,
        reader: Option<&Bound<'_, PyAny>>,
        check_template: bool,
    ) -> PyResult<Self> {
        let py = format.py();
        let reader = reader.map(ReaderGiven::from_argument).transpose()?;
        if let Ok(template) = format.cast::<Template>() {
            let (reader, response) = ReaderGiven::split(reader);
            return Self::of_template(template, vocab, reader)?.responding(response.as_ref());
        }
        if reader.is_some() {
            let problem = "reader: is given beside a format, which reads what it writes; expected a template, or no \
                           `reader`";
            return Err(PyValueError::new_err(problem));
        }
        let format = Format::from_argument(format)?;
        let Some(vocab) = vocab else {
            let name = format.name();
            return Err(lacks_vocab(&format!("format `{}`", chatcodec::place(name)), name));
        };
        let (vocab, file) = vocab_of(py, vocab)?;
        let vocab = vocab.get();
        if check_template {
            format.check_hints(vocab.hints()).map_err(raise)?;
            format.check_appended(vocab.inner()).map_err(raise)?;
        }
        let given = vocab.inner().clone();
        let inner = CoreCodec::new(&format, &given).map_err(|e| raise_in(e, file.as_deref()))?;
        let codec = Self::of_core(py, inner, Reader::Named, given, vocab.origin())?;
        Ok(codec.stopping_at(vocab.hints().stop_ids()))
    }

    /// A codec of the vocabulary of a model's folder, written by its template.
    fn of_folder(
        vocab: &Bound<'_, Vocab>,
        template: Option<&str>,
        reader: Option<ReaderGiven>,
        check_template: bool,
    ) -> PyResult<Self> {
        let py = vocab.py();
        let hints = vocab.get().shared_hints();
        let source = hints.source(template).map_err(raise)?;
        let template = Bound::new(py, Template::of_folder(source, hints.own())?)?;
        let (reader, response) = ReaderGiven::split(reader);
        let codec = Self::of_template(&template, Some(vocab.as_any()), reader)?;
        let codec = match codec.reader {
            // The format writes what the template does, and what it passes over.
            Reader::Recognised(found) if found.is_exact() && !found.completes.is_empty() => {
                let format = Bound::new(py, Format::new(codec.inner.format().clone()))?;
                let codec =
                    Self::made(format.as_any(), Some(vocab.as_any()), None, check_template)?;
                Self { reader: Reader::Recognised(found), ..codec }
            }
            reader => Self { reader, ..codec },
        };
        let own = hints.response().filter(|_| response.is_none());
        let codec = match (own, &codec.reader) {
            (Some(source), Reader::Answers(_) | Reader::Derived(_) | Reader::Text) => {
                codec.responding_as(source)
            }
            _ => codec.responding(response.as_ref())?,
        };
        if codec.inner.unread().contains(&"calls") {
            let problem = c"the model's chat template writes calls, which nobody reads: expected `reader`, a format or \
                            a `ResponseTemplate` that reads them";
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), problem, 1)?;
        }
        Ok(codec)
    }

    /// A codec of a model: of its vocabulary, and of a format or its template.
    pub(super) fn of_model(
        py: Python<'_>,
        format: Option<&Bound<'_, PyAny>>,
        template: Option<&str>,
        reader: Option<&Bound<'_, PyAny>>,
        check_template: bool,
        vocab: impl FnOnce() -> PyResult<Vocab>,
    ) -> PyResult<Self> {
        let reader = reader.map(ReaderGiven::from_argument).transpose()?;
        for (option, is_given) in [("template", template.is_some()), ("reader", reader.is_some())] {
            if is_given && format.is_some() {
                let problem = format!("{option}: is given beside `format`, expected one of them");
                return Err(PyValueError::new_err(problem));
            }
        }
        // Whether there is such a format is known before anything is downloaded.
        let named = format.map(Format::from_argument).transpose()?;
        let vocab = Bound::new(py, vocab()?)?;
        if let Some(format) = named {
            let format = Bound::new(py, Format::new(format))?;
            return Self::made(format.as_any(), Some(vocab.as_any()), None, check_template);
        }
        Self::of_folder(&vocab, template, reader, check_template)
    }

    /// A codec of a template. Without a format, the one that reads completions is found.
    fn of_template(
        template: &Bound<'_, Template>,
        vocab: Option<&Bound<'_, PyAny>>,
        reader: Option<CoreFormat>,
    ) -> PyResult<Self> {
        let py = template.py();
        let Some(vocab) = vocab else {
            return Err(lacks_vocab("template", "template"));
        };
        let (vocab, file) = vocab_of(py, vocab)?;
        let (given, origin) = (vocab.get().inner().clone(), vocab.get().origin());
        let parsed = template.get().inner().clone();
        let (own, known) = (template.get().own().to_vec(), given.clone());
        let make = move || match reader {
            Some(format) => {
                let codec = CoreCodec::with_template(&parsed, &own, &format, &known)?;
                Ok((codec, Reader::Named))
            }
            None => CoreCodec::of_template(&parsed, &own, &known),
        };
        let codec = away(py, make)?;
        let (inner, reader) = codec.map_err(|error| raise_in(error, file.as_deref()))?;
        let codec = Self::of_core(py, inner, reader, given, origin)?;
        let codec = codec.stopping_at(vocab.get().hints().stop_ids());
        Ok(Self { template: Some(template.clone().unbind()), ..codec })
    }

    fn of_core(
        py: Python<'_>,
        inner: CoreCodec,
        reader: Reader,
        given: CoreVocab,
        origin: Option<Arc<Origin>>,
    ) -> PyResult<Self> {
        Ok(Self {
            format: Py::new(py, Format::new(inner.format().clone()))?,
            vocab: Py::new(py, Vocab::new(inner.vocab().clone()))?,
            inner,
            given,
            origin,
            texts: Arc::default(),
            reader,
            template: None,
            unused_response: None,
            folder_stops: Vec::new(),
        })
    }

    /// The same codec with the stop ids of a model's folder.
    fn stopping_at(self, ids: &[i64]) -> Self {
        if ids.is_empty() {
            return self;
        }
        let known: Vec<TokenId> = ids.iter().filter_map(|&id| TokenId::try_from(id).ok()).collect();
        let inner = self.inner.stopping_at(&known);
        Self { inner, folder_stops: ids.to_vec(), ..self }
    }

    /// The same codec, whose completions a response template reads.
    fn responding(self, template: Option<&CoreResponse>) -> PyResult<Self> {
        let Some(template) = template else { return Ok(self) };
        Ok(Self { inner: self.inner.with_response(template).map_err(raise)?, ..self })
    }

    /// The same codec with the model's own response template, where it is supported.
    fn responding_as(self, source: &str) -> Self {
        let made = CoreResponse::parse(source);
        match made.and_then(|template| self.inner.with_response(&template)) {
            Ok(inner) => Self { inner, ..self },
            Err(error) => Self { unused_response: Some(error.to_string()), ..self },
        }
    }

    /// A pickled codec again.
    pub(super) fn restored(
        writer: &Bound<'_, PyAny>,
        vocab: &Bound<'_, PyAny>,
        format: &Bound<'_, Format>,
        told: ToldReader,
        response: Option<&str>,
        stop_ids: Option<Vec<i64>>,
    ) -> PyResult<Self> {
        let py = writer.py();
        let stops = stop_ids.unwrap_or_default();
        let response = response.map(CoreResponse::parse).transpose().map_err(raise)?;
        let reader = known_reader(told, format.get().inner().name())?;
        let Ok(template) = writer.cast::<Template>() else {
            let codec = Self::made(writer, Some(vocab), None, false)?;
            return Self { reader, ..codec }.stopping_at(&stops).responding(response.as_ref());
        };
        let (vocab, _) = vocab_of(py, vocab)?;
        let (given, origin) = (vocab.get().inner().clone(), vocab.get().origin());
        let (parsed, own) = (template.get().inner(), template.get().own());
        let format = format.get().inner();
        let inner = CoreCodec::with_reader(parsed, own, format, &given, &reader).map_err(raise)?;
        let codec = Self::of_core(py, inner, reader, given, origin)?.stopping_at(&stops);
        Self { template: Some(template.clone().unbind()), ..codec }.responding(response.as_ref())
    }

    /// What makes the codec again: a function and its arguments.
    pub(super) fn reduced<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let (py, this) = (slf.py(), slf.get());
        let vocab = Vocab::new(this.given.clone()).read_from(this.origin.clone());
        let vocab = Py::new(py, vocab)?;
        let writer =
            this.template.as_ref().map_or(this.format.as_any(), |template| template.as_any());
        let arguments = PyTuple::new(py, [writer, vocab.as_any()])?;
        let is_made_otherwise = this.template.is_some() || this.reader != Reader::Named;
        if is_made_otherwise || !this.folder_stops.is_empty() {
            let restore = slf.get_type().getattr("_restore")?;
            let told = told_reader(&this.reader);
            let response = this.inner.response().map(CoreResponse::source);
            let stops = this.folder_stops.clone();
            let arguments =
                (writer, vocab, &this.format, told, response, stops).into_pyobject(py)?;
            return PyTuple::new(py, [restore, arguments.into_any()]);
        }
        // Tools that were read once are not checked again.
        let unchecked = PyDict::new(py);
        unchecked.set_item("check_template", false)?;
        let partial = py.import("functools")?.getattr("partial")?;
        let new = partial.call((slf.get_type(),), Some(&unchecked))?;
        PyTuple::new(py, [new, arguments.into_any()])
    }
}

/// The name of the vocabulary of the package, as an argument.
const EMBEDDED: &str = "embedded";

/// The error of a codec without a vocabulary. The ids of one that the caller did not choose would be no model's.
fn lacks_vocab(subject: &str, file: &str) -> PyErr {
    let message = format!(
        "{subject}: needs a vocabulary, expected `Codec.from_pretrained(MODEL)`, or `vocab=` with the model's files; \
         `vocab=\"{EMBEDDED}\"` is in the package for trying things out, and its ids are no model's"
    );
    FormatError::new_err((message, file.to_owned(), String::new()))
}

/// The vocabulary that an argument names, and the path that it was loaded from here.
fn vocab_of<'py>(
    py: Python<'py>,
    vocab: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, Vocab>, Option<String>)> {
    if let Ok(vocab) = vocab.cast::<Vocab>() {
        return Ok((vocab.clone(), None));
    }
    // A string alone: a path of this name is `./embedded`, or no string.
    if vocab.cast::<PyString>().is_ok_and(|name| name == EMBEDDED) {
        return Ok((Bound::new(py, Vocab::new(embedded(py)))?, None));
    }
    let path: PathBuf = vocab.extract()?;
    let file = path.display().to_string();
    Ok((Bound::new(py, load(py, path, VocabOptions::default())?)?, Some(file)))
}
