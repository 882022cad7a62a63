//! From a path to the files of a vocabulary, reading no more than a vocabulary can need.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chatcodec::{FolderHints, Vocab, VocabFiles};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::errors::VocabError;
use crate::files::{self, Failure, os_error};

/// Names and contents.
pub(crate) type Contents = Vec<(String, Arc<[u8]>)>;

/// Enough of a file to see what kind it is.
const MAGIC_BYTES: u64 = 4;

/// The files that a path means: a file with those that belong beside it, or what matters of a folder.
pub(crate) fn read_files(path: &Path) -> PyResult<Contents> {
    if path.is_dir() { read_folder(path) } else { read_with_siblings(path) }
}

fn read_with_siblings(path: &Path) -> PyResult<Contents> {
    let name = file_name(path);
    let mut read = Reader::default();
    let bytes = read.push(name.clone(), path)?;
    for sibling in VocabFiles::siblings(&name, &bytes) {
        let path = path.with_file_name(sibling);
        if path.is_file() {
            read.push((*sibling).to_owned(), &path)?;
        }
    }
    Ok(read.files)
}

fn read_folder(folder: &Path) -> PyResult<Contents> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| os_error(error, folder))? {
        let path = entry.map_err(|error| os_error(error, folder))?.path();
        // A pipe or a device of such a name is no file to read, and could keep a reader forever.
        if VocabFiles::matters(&file_name(&path)) && path.is_file() {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        let folder = folder.display().to_string();
        let message = format!(
            "`{folder}`: vocabulary `file`: no file of a vocabulary in this folder; expected \
             `tokenizer.json`, `tokenizer.model`, `vocab.json` with `merges.txt`, `tekken.json`, \
             `*.tiktoken` or `*.gguf`"
        );
        return Err(VocabError::new_err((message, folder, None::<usize>, "file")));
    }
    let is_gguf = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "gguf");
    if paths.iter().any(|path| VocabFiles::is_vocabulary(&file_name(path))) {
        paths.retain(|path| !is_gguf(path));
    }
    paths.sort();
    let mut read = Reader::default();
    for path in paths {
        read.push(file_name(&path), &path)?;
    }
    Ok(read.files)
}

/// The longest file that is read for hints.
const HINT_BYTES: usize = 4 << 20;

/// Most further templates of a model.
const MAX_TEMPLATES: usize = 64;

/// What a folder, or a GGUF file, says about the format of its model.
pub(crate) fn read_hints(folder: &Path, vocabulary: &Contents) -> FolderHints {
    let mut broken: Option<(String, String)> = None;
    let mut read = |name: String, path: &Path| {
        let problem = match read_some(path, HINT_BYTES + 1) {
            Ok(bytes) if bytes.len() <= HINT_BYTES => return Some((name, bytes.into())),
            Ok(_) => format!("it has more than {HINT_BYTES} bytes"),
            Err(failure) => failure.to_string(),
        };
        broken.get_or_insert((name, problem));
        None
    };
    let named = FolderHints::FILES.iter().map(|name| (*name, folder.join(name)));
    let named = named.filter(|(_, path)| path.is_file());
    let mut files: Contents =
        named.filter_map(|(name, path)| read(name.to_owned(), &path)).collect();
    let further = std::fs::read_dir(folder.join(FolderHints::FURTHER)).into_iter().flatten();
    let mut further: Vec<PathBuf> = further.flatten().map(|entry| entry.path()).collect();
    further.retain(|path| path.is_file());
    further.sort();
    for path in further.iter().take(MAX_TEMPLATES) {
        files.extend(read(format!("{}{}", FolderHints::FURTHER, file_name(path)), path));
    }
    // Of a vocabulary that is a GGUF file, the metadata that was read.
    let gguf = vocabulary.iter().filter(|(_, bytes)| VocabFiles::is_gguf(bytes));
    files.extend(gguf.map(|(name, bytes)| (name.clone(), bytes.clone())));
    let hints = FolderHints::of_files(&files);
    match broken {
        Some((file, problem)) => hints.with_broken(&file, &problem),
        None => hints,
    }
}

/// A file's name without its folder. What is no UTF-8 gets a name that no file of interest has.
fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[derive(Default)]
struct Reader {
    files: Contents,
    total: usize,
}

impl Reader {
    /// Reads a file, if there is room for it. One byte too much is read of what is too long, so that
    /// the core can say so.
    fn push(&mut self, name: String, path: &Path) -> PyResult<Arc<[u8]>> {
        let room = (Vocab::MAX_FILE_BYTES + 1).saturating_sub(self.total);
        let bytes = read_some(path, room).map_err(|failure| failure.of_vocab(path))?;
        let bytes: Arc<[u8]> = bytes.into();
        self.total += bytes.len();
        self.files.push((name, bytes.clone()));
        Ok(bytes)
    }
}

/// The beginning of a file: `room` bytes, or of a GGUF file what holds its vocabulary.
fn read_some(path: &Path, room: usize) -> Result<Vec<u8>, Failure> {
    let mut file = files::open(path)?;
    let mut bytes = Vec::new();
    file.by_ref().take(MAGIC_BYTES.min(room as u64)).read_to_end(&mut bytes)?;
    let most =
        if VocabFiles::is_gguf(&bytes) { room.min(VocabFiles::GGUF_HEAD_BYTES) } else { room };
    file.take((most.saturating_sub(bytes.len())) as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The path that is given, or a folder with the files of a model on the hub if what is given is no path
/// but its name.
pub(crate) fn locate(
    name_or_dir: &Bound<'_, PyAny>,
    revision: Option<&str>,
    token: Option<&Bound<'_, PyAny>>,
    local_files_only: bool,
) -> PyResult<PathBuf> {
    let path: PathBuf = name_or_dir.extract()?;
    if path.exists() || !name_or_dir.is_instance_of::<PyString>() {
        return Ok(path);
    }
    let py = name_or_dir.py();
    let options = PyDict::new(py);
    options.set_item("revision", revision)?;
    options.set_item("token", token)?;
    options.set_item("local_files_only", local_files_only)?;
    py.import("chatcodec.hub")?.call_method("fetch", (name_or_dir,), Some(&options))?.extract()
}
