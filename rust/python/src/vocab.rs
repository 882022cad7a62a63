//! `Vocab`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chatcodec::{
    DummyPrefix, FolderHints, Spelling, TokenId, Vocab as CoreVocab, VocabFiles, VocabOptions,
    place,
};
use pyo3::exceptions::{PyRecursionError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyBytes, PyDict, PyString, PyTuple};

use crate::array::IntArray;
use crate::away::{DETACH_BYTES, away, in_place, on_ids};
use crate::batch::{is_long, threads_for};
use crate::errors::{VocabError, quoted, raise, raise_in};
use crate::heap;
use crate::ids::{self, Ids, ListOf, Threads};
use crate::node::{Member, is_mapping, members};
use crate::report::VocabReport;
use crate::text_batch::{TextBatch, encode_texts};
use crate::typed::{StrDict, StrIntDict};
use crate::vocab_files::{locate, read_files, read_hints};

/// A vocabulary: text to ids and ids to text, where text never becomes control. Frozen; safe to
/// share between threads; pickled as the content of its files.
#[pyclass(module = "chatcodec._core", frozen)]
pub(crate) struct Vocab {
    inner: CoreVocab,
    /// The hints about the format in the vocabulary's folder; `Codec` compares a format with them.
    hints: Arc<FolderHints>,
    /// Where it was read from.
    origin: Option<Arc<Origin>>,
}

/// Where a vocabulary was read from: an absolute path, and the name and the revision on the hub.
pub(crate) struct Origin {
    path: String,
    model: Option<String>,
    revision: Option<String>,
}

impl Vocab {
    pub(crate) fn new(inner: CoreVocab) -> Self {
        Self { inner, hints: Arc::default(), origin: None }
    }

    /// The same vocabulary, with what its first call would make: a thread's working memory, and the classes of
    /// characters.
    fn warm(self) -> Self {
        // A vocabulary that has no token for this text has made them too.
        let _ = self.inner.try_encode("a \u{597d}");
        self
    }

    /// The same vocabulary, with where it was read from.
    pub(crate) fn read_from(self, origin: Option<Arc<Origin>>) -> Self {
        Self { origin, ..self }
    }

    pub(crate) fn origin(&self) -> Option<Arc<Origin>> {
        self.origin.clone()
    }

    pub(crate) fn inner(&self) -> &CoreVocab {
        &self.inner
    }

    pub(crate) fn shared_hints(&self) -> Arc<FolderHints> {
        self.hints.clone()
    }

    pub(crate) fn hints(&self) -> &FolderHints {
        &self.hints
    }
}

fn spelling(word: &str) -> PyResult<Spelling> {
    match word {
        "spell" => Ok(Spelling::Spell),
        "skip" => Ok(Spelling::Skip),
        _ => {
            let word = quoted(word);
            Err(PyValueError::new_err(format!("control={word}, expected \"spell\" or \"skip\"")))
        }
    }
}

/// The vocabulary of the package.
pub(crate) fn embedded(py: Python<'_>) -> CoreVocab {
    static IS_LOADED: AtomicBool = AtomicBool::new(false);
    if IS_LOADED.swap(true, Ordering::Relaxed) {
        return CoreVocab::embedded();
    }
    py.detach(|| heap::loading(CoreVocab::embedded))
}

/// The vocabulary of a path, read with the interpreter released.
pub(crate) fn load(py: Python<'_>, path: PathBuf, options: VocabOptions) -> PyResult<Vocab> {
    let name = path.display().to_string();
    // What is no UTF-8 is no path that a recipe can hold.
    let absolute = std::path::absolute(&path).ok();
    let absolute = absolute.and_then(|path| path.to_str().map(str::to_owned));
    let origin = absolute.map(|path| Arc::new(Origin { path, model: None, revision: None }));
    // On this thread, whose freed memory the first text uses again.
    let (vocab, hints) = py.detach(|| {
        let files = read_files(&path)?;
        let hints = Arc::new(read_hints(&path, &files));
        let vocab = heap::loading(|| CoreVocab::load_files(VocabFiles { files, options }));
        Ok::<_, PyErr>((vocab, hints))
    })?;
    let inner = vocab.map_err(|error| raise_in(error, Some(&name)))?;
    Ok(Vocab { inner, hints, origin })
}

/// Runs work on ids; releases the interpreter if there are many.
fn with_ids<T, E>(
    py: Python<'_>,
    ids: Ids,
    work: impl FnOnce(&[TokenId]) -> Result<T, E> + Send + 'static,
) -> PyResult<T>
where
    T: Send + 'static,
    E: Into<chatcodec::Error> + Send + 'static,
{
    let count = ids.plain()?.len();
    on_ids(py, count, move || work(ids.all()))?.map_err(raise)
}

/// The caller's options of a vocabulary, as arguments.
struct LoadOptions<'py> {
    text_tokens: Option<ListOf<Bound<'py, PyString>>>,
    special_tokens: Option<Bound<'py, PyAny>>,
    pattern: Option<Bound<'py, PyString>>,
}

impl LoadOptions<'_> {
    fn read(&self) -> PyResult<VocabOptions> {
        let mut options = VocabOptions::default();
        for spelling in self.text_tokens.iter().flat_map(|ListOf(spellings)| spellings) {
            options.text_tokens.push(option_text(spelling, "text_tokens")?);
        }
        let tokens = self.special_tokens.as_ref().map(token_members).transpose()?;
        for (spelling, id) in tokens.unwrap_or_default() {
            let spelling = option_text(spelling.cast::<PyString>()?, "special_tokens")?;
            let Some(id) = ids::int_of(&id)?.and_then(|id| TokenId::try_from(id).ok()) else {
                let shown = match id.str() {
                    Ok(text) => place(&text.to_string_lossy()).into_owned(),
                    // Python refuses to write out very long ints, and very deep lists.
                    Err(error) if is_unwritable(&error, id.py()) => {
                        format!("`{}`, too long to write", id.get_type().name()?)
                    }
                    Err(error) => return Err(error),
                };
                let problem =
                    format!("`{}` is {shown}, expected an id of 31 bits", place(&spelling));
                return Err(option_error("special_tokens", &problem));
            };
            options.special_tokens.push((spelling, id));
        }
        let pattern = self.pattern.as_ref();
        options.pattern = pattern.map(|pattern| option_text(pattern, "pattern")).transpose()?;
        Ok(options)
    }
}

fn token_members<'py>(tokens: &Bound<'py, PyAny>) -> PyResult<Vec<Member<'py>>> {
    let found = if is_mapping(tokens)? { members(tokens)? } else { None };
    found.ok_or_else(|| PyTypeError::new_err("`special_tokens` is no mapping of spellings to ids"))
}

fn is_unwritable(error: &PyErr, py: Python<'_>) -> bool {
    error.is_instance_of::<PyValueError>(py) || error.is_instance_of::<PyRecursionError>(py)
}

fn option_text(text: &Bound<'_, PyString>, option: &str) -> PyResult<String> {
    let half = |_| option_error(option, "holds half of a surrogate pair, expected text");
    text.to_str().map(str::to_owned).map_err(half)
}

fn option_error(option: &str, problem: &str) -> PyErr {
    let message = format!("vocabulary `{option}`: {problem}");
    VocabError::new_err((message, None::<String>, None::<usize>, option.to_owned()))
}

/// Content of a pickle: names and contents of the files, the options in their order, tokens that a
/// format appended, and aliases.
type Pickled<'py> =
    (Vec<(String, Bound<'py, PyBytes>)>, PickledOptions, Vec<String>, Vec<Vec<String>>);
type PickledOptions = (Vec<String>, Vec<(String, TokenId)>, Option<String>);

/// A hash of all parts. A length comes before every part and every list, so that different pickles
/// have different input to the hash.
fn sha256(py: Python<'_>, (files, options, appended, aliases): &Pickled<'_>) -> PyResult<String> {
    let hash = py.import("hashlib")?.call_method0("sha256")?;
    let update = |bytes: &Bound<'_, PyBytes>| hash.call_method1("update", (bytes,)).map(drop);
    let count = |count: usize| update(&PyBytes::new(py, &(count as u64).to_le_bytes()));
    let text = |text: &str| {
        count(text.len())?;
        update(&PyBytes::new(py, text.as_bytes()))
    };
    let texts = |texts: &[String]| {
        count(texts.len())?;
        texts.iter().try_for_each(|each| text(each))
    };
    let (text_tokens, special_tokens, pattern) = options;
    count(files.len())?;
    for (name, content) in files {
        text(name)?;
        count(content.as_bytes().len())?;
        update(content)?;
    }
    texts(text_tokens)?;
    count(special_tokens.len())?;
    for (spelling, id) in special_tokens {
        text(spelling)?;
        text(&id.to_string())?;
    }
    texts(pattern.as_slice())?;
    texts(appended)?;
    count(aliases.len())?;
    aliases.iter().try_for_each(|group| texts(group))?;
    hash.call_method0("hexdigest")?.extract()
}

#[pymethods]
impl Vocab {
    /// Reads a vocabulary from a file, or from a folder with its files. The kind is detected from
    /// the content. A file that holds half a vocabulary (ranks, `vocab.json`, `merges.txt`) is read
    /// with the files beside it. Of a folder, only files about the vocabulary are read, 64 MiB in
    /// all. Every added token is control, unless it is known to be text.
    ///
    /// `text_tokens` are spellings of added tokens that are ordinary text in this vocabulary.
    /// `special_tokens` are control tokens that the files lack, with their ids. `pattern` is the
    /// regular expression that splits text before merging, for files of ranks that do not state it.
    ///
    /// Raises `VocabError` for truncated files, files of another kind, features that are not
    /// implemented, and a folder without a vocabulary; `OSError` for a path that does not exist or
    /// cannot be read.
    #[staticmethod]
    #[pyo3(signature = (
        path: "str | PathLike[str]",
        *,
        text_tokens: "Sequence[str] | None" = None,
        special_tokens: "Mapping[str, int] | None" = None,
        pattern: "str | None" = None
    ))]
    fn load<'py>(
        py: Python<'py>,
        path: PathBuf,
        text_tokens: Option<ListOf<Bound<'py, PyString>>>,
        special_tokens: Option<Bound<'py, PyAny>>,
        pattern: Option<Bound<'py, PyString>>,
    ) -> PyResult<Self> {
        let options = LoadOptions { text_tokens, special_tokens, pattern }.read()?;
        load(py, path, options).map(Self::warm)
    }

    /// Reads the vocabulary of a model on the Hugging Face hub, such as `"Qwen/Qwen3-8B"`; or, if
    /// `name_or_dir` is a folder or a file, as `load` does.
    ///
    /// Names need `pip install huggingface_hub`. Cached files are used without a request to the
    /// hub; missing files are downloaded: only the tokenizer's files, no weights. `revision` is a
    /// branch, a tag or a commit. `token` is the hub's token: a string, `True` for the stored
    /// token, or `False` for none. `local_files_only=True` uses only cached files. The other
    /// options are those of `load`.
    ///
    /// Raises the errors of `load`; `VocabError` for a name that the hub does not have or does not
    /// give access to, and for a model without a vocabulary; `OSError` if the hub cannot be reached
    /// or no file is cached; `ImportError` without `huggingface_hub`.
    #[staticmethod]
    #[pyo3(signature = (
        name_or_dir: "str | PathLike[str]",
        *,
        revision: "str | None" = None,
        token: "str | bool | None" = None,
        local_files_only: "bool" = false,
        text_tokens: "Sequence[str] | None" = None,
        special_tokens: "Mapping[str, int] | None" = None,
        pattern: "str | None" = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the options of the public interface")]
    pub(crate) fn from_pretrained<'py>(
        py: Python<'py>,
        name_or_dir: &Bound<'py, PyAny>,
        revision: Option<&str>,
        token: Option<&Bound<'py, PyAny>>,
        local_files_only: bool,
        text_tokens: Option<ListOf<Bound<'py, PyString>>>,
        special_tokens: Option<Bound<'py, PyAny>>,
        pattern: Option<Bound<'py, PyString>>,
    ) -> PyResult<Self> {
        let options = LoadOptions { text_tokens, special_tokens, pattern }.read()?;
        let path = locate(name_or_dir, revision, token, local_files_only)?;
        let mut vocab = load(py, path.clone(), options)?;
        let is_name = name_or_dir.extract::<PathBuf>().is_ok_and(|given| given != path);
        if let Some(origin) = vocab.origin.as_mut().and_then(Arc::get_mut).filter(|_| is_name) {
            origin.model = Some(name_or_dir.str()?.to_string());
            origin.revision = revision.map(str::to_owned);
        }
        Ok(vocab.warm())
    }

    /// The vocabulary of the package: InternLM2's layout of ids, with merges of its own.
    #[staticmethod]
    fn embedded(py: Python<'_>) -> Self {
        Self::new(embedded(py)).warm()
    }

    /// Where it was read from: a path, and the name and the revision on the hub.
    #[getter]
    fn _origin(&self) -> Option<(&str, Option<&str>, Option<&str>)> {
        let Origin { path, model, revision } = self.origin.as_deref()?;
        Some((path, model.as_deref(), revision.as_deref()))
    }

    /// The number of ids, unused ones included.
    #[getter]
    fn size(&self) -> usize {
        self.inner.size()
    }

    /// Every spelling of every control token, with its id.
    #[getter]
    fn control<'py>(&self, py: Python<'py>) -> PyResult<StrIntDict<'py>> {
        let dict = PyDict::new(py);
        for (spelling, id) in self.inner.control() {
            dict.set_item(spelling, id)?;
        }
        Ok(StrIntDict(dict))
    }

    /// The added tokens that are ordinary text, with their ids. All other added tokens are control.
    #[getter]
    fn text_tokens<'py>(&self, py: Python<'py>) -> PyResult<StrIntDict<'py>> {
        let dict = PyDict::new(py);
        for token in self.inner.text_tokens() {
            dict.set_item(token.spelling, token.id)?;
        }
        Ok(StrIntDict(dict))
    }

    /// The reason why each added token is text. Tokens that the caller named have no reason here.
    #[getter]
    fn text_reasons<'py>(&self, py: Python<'py>) -> PyResult<StrDict<'py>> {
        let dict = PyDict::new(py);
        for token in self.inner.text_tokens() {
            if let Some(reason) = token.reason {
                dict.set_item(token.spelling, reason)?;
            }
        }
        Ok(StrDict(dict))
    }

    /// Number of unused ids: neither text nor a control token has them.
    #[getter]
    fn unused(&self) -> usize {
        self.inner.unused()
    }

    /// Where the vocabulary puts a space before text: `"every run"` of text between two control
    /// tokens; the `"first run"`, only if no token comes before it; or `"never"`.
    #[getter]
    fn dummy_prefix(&self) -> &'static str {
        match self.inner.dummy_prefix() {
            DummyPrefix::EveryRun => "every run",
            DummyPrefix::FirstRun => "first run",
            DummyPrefix::Never => "never",
        }
    }

    /// Whether decoding gives back every text, up to normalisation by the vocabulary;
    /// `report.losses` gives the reasons if not. Where `dummy_prefix` is `"first run"`, a single
    /// text that begins with a space has the reference's ids, which are those of the text without
    /// the space; a codec writes the space.
    #[getter]
    fn lossless(&self) -> bool {
        self.inner.lossless()
    }

    /// How the vocabulary is read and why: its engine, losses, text tokens with their rules, and
    /// findings in its files.
    #[getter]
    fn report(&self) -> VocabReport {
        VocabReport::new(self.inner.report())
    }

    /// The kind of its file: `"sentencepiece"`, `"tokenizer.json"`, `"tiktoken"` …
    #[getter]
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    /// Encodes text to ids that are never control: int32, one dimension. Raises `MessageError` for
    /// half of a surrogate pair, and `VocabError` for text without a token, in a vocabulary that is
    /// not `lossless`. All cores, or `threads`, share a text of half a megabyte or more; the ids
    /// are the same.
    #[pyo3(signature = (text, *, threads = None))]
    fn encode(
        &self,
        py: Python<'_>,
        text: &Bound<'_, PyString>,
        threads: Option<Threads>,
    ) -> PyResult<IntArray> {
        let text = ids::long_text(text, "text")?;
        let threads = threads_for(text.len(), threads);
        let ids = if text.len() < DETACH_BYTES {
            self.inner.try_encode(&text)
        } else if !is_long(text.len(), &self.inner) {
            py.detach(|| self.inner.try_encode_on(threads, &text))
        } else if self.inner.lossless() {
            in_place(py, || self.inner.try_encode_on(threads, &text))?
        } else {
            let (vocab, text) = (self.inner.clone(), text.into_owned());
            away(py, move || vocab.try_encode_on(threads, &text))?
        };
        ids.map(IntArray::int32).map_err(raise)
    }

    /// Encodes many texts, each as `encode` does, and faster. `batch.ids` has the ids of all, and `batch[i]`
    /// those of one. All cores, or `threads`, share the texts; the interpreter is released. Raises
    /// `TypeError` for an item that is no `str`, and `encode`'s errors with the item (`texts[3]`).
    #[pyo3(signature = (texts: "Iterable[str]", *, threads = None), text_signature = "($self, texts, *, threads=None)")]
    fn encode_batch(
        &self,
        texts: &Bound<'_, PyAny>,
        threads: Option<Threads>,
    ) -> PyResult<TextBatch> {
        encode_texts(&self.inner, texts, threads)
    }

    /// Decodes ids to text. Control tokens become their spellings (`control="spell"`) or are left
    /// out (`"skip"`). Bytes that are not UTF-8 become U+FFFD. Raises `VocabError` for an id
    /// outside the vocabulary.
    #[pyo3(signature = (ids, control: "Literal['spell', 'skip']" = "spell"))]
    fn decode(&self, py: Python<'_>, ids: Ids, control: &str) -> PyResult<String> {
        let (vocab, control) = (self.inner.clone(), spelling(control)?);
        with_ids(py, ids, move |ids| vocab.decode(ids, control))
    }

    /// Decodes ids to bytes; control tokens become their spellings.
    fn decode_bytes<'py>(&self, py: Python<'py>, ids: Ids) -> PyResult<Bound<'py, PyBytes>> {
        let vocab = self.inner.clone();
        Ok(PyBytes::new(py, &with_ids(py, ids, move |ids| vocab.decode_bytes(ids))?))
    }

    /// The position of the first id that `encode` gives the text of its run otherwise; None where all are canonical. A
    /// run is the ids between two control tokens. An id outside the vocabulary, or of no text, is such an id.
    ///
    ///     vocab.first_uncanonical(vocab.encode("Hello"))  # None
    fn first_uncanonical(&self, py: Python<'_>, ids: Ids) -> PyResult<Option<usize>> {
        let vocab = self.inner.clone();
        with_ids(py, ids, move |ids| Ok::<_, chatcodec::Error>(vocab.first_uncanonical(ids)))
    }

    /// Whether all ids are those that `encode` gives the text between control tokens: `first_uncanonical` is None.
    fn is_canonical(&self, py: Python<'_>, ids: Ids) -> PyResult<bool> {
        self.first_uncanonical(py, ids).map(|first| first.is_none())
    }

    /// The bytes of one token: its text, or a control token's spelling.
    #[pyo3(signature = (id: "SupportsIndex"))]
    fn token_bytes<'py>(&self, py: Python<'py>, id: Ids) -> PyResult<Bound<'py, PyBytes>> {
        let [id] = *id.plain()? else {
            return Err(PyTypeError::new_err("expected one id"));
        };
        Ok(PyBytes::new(py, self.inner.token_bytes(id).map_err(raise)?))
    }

    fn __repr__(&self) -> String {
        let (kind, size, control) =
            (self.inner.kind(), self.inner.size(), self.inner.control().len());
        format!("Vocab({kind:?}, size={size}, control={control})")
    }

    #[pyo3(signature = () -> "tuple[object, ...]")]
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let inner = &slf.get().inner;
        let (files, options) = match inner.source() {
            None => (None, VocabOptions::default()),
            Some(source) => {
                let bytes =
                    |(name, bytes): &(String, Arc<[u8]>)| (name.clone(), PyBytes::new(py, bytes));
                (Some(source.files.iter().map(bytes).collect()), source.options.clone())
            }
        };
        let VocabOptions { text_tokens, special_tokens, pattern } = options;
        let pickled: Pickled<'_> = (
            files.clone().unwrap_or_default(),
            (text_tokens, special_tokens, pattern),
            inner.appended().to_vec(),
            inner.aliases().to_vec(),
        );
        let digest = sha256(py, &pickled)?;
        let (_, options, appended, aliases) = pickled;
        let arguments = (files, digest, options, appended, aliases).into_pyobject(py)?;
        let restore = py.get_type::<Self>().getattr("_restore")?;
        PyTuple::new(py, [restore, arguments.into_any()])
    }

    /// Restores a pickled vocabulary.
    #[staticmethod]
    #[pyo3(signature = (
        files: "list[tuple[str, bytes]] | None",
        digest: "str | None",
        options: "tuple[list[str], list[tuple[str, int]], str | None]",
        appended: "list[str]",
        aliases: "list[list[str]]"
    ))]
    fn _restore(
        py: Python<'_>,
        files: Option<Vec<(String, Bound<'_, PyBytes>)>>,
        digest: Option<String>,
        options: PickledOptions,
        appended: Vec<String>,
        aliases: Vec<Vec<String>>,
    ) -> PyResult<Self> {
        let is_embedded = files.is_none();
        let pickled = (files.unwrap_or_default(), options, appended, aliases);
        if digest != Some(sha256(py, &pickled)?) {
            let message = "vocabulary `file`: the pickled content does not fit its hash";
            return Err(VocabError::new_err((message, None::<String>, None::<usize>, "file")));
        }
        let (files, (text_tokens, special_tokens, pattern), appended, aliases) = pickled;
        let vocab = if is_embedded {
            embedded(py)
        } else {
            let files =
                files.into_iter().map(|(name, bytes)| (name, bytes.as_bytes().into())).collect();
            let options = VocabOptions { text_tokens, special_tokens, pattern };
            heap::loading(|| CoreVocab::load_files(VocabFiles { files, options })).map_err(raise)?
        };
        vocab.restore(&appended, &aliases).map(Self::new).map_err(raise)
    }
}
