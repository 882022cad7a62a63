//! Tables of Arrow, encoded: conversations in, columns of ids out, without an object of Python's for a row.
//!
//! In: an object with `__arrow_c_stream__` or `__arrow_c_array__`. Out: an [`EncodedTable`] with the columns
//! of the table and the new ones. Rows are read and encoded on all cores, the interpreter released.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::builder::{ArrayBuilder as _, StringBuilder};
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{
    Array as _, ArrayRef, ArrowPrimitiveType, Int32Array, ListArray, PrimitiveArray, RecordBatch,
    RecordBatchIterator, RecordBatchReader, StructArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef};
use chatcodec::{Codec, Conversation, EncodeOptions, Encoding, LabelOptions, Markup, ReadOptions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::arrow::{schema_capsule, stream_capsule};
use crate::batch::share;
use crate::errors::{quoted, raise, raise_data};
use crate::ids::ListOf;
use crate::rows::Columns;
use crate::typed::Capsule;

/// So many rows are one job of a thread, which puts their ids into columns; a single thread has jobs of a whole
/// record batch.
const RUN_ROWS: usize = 64;

/// Most ids for which a job makes room before it has them.
const RUN_IDS: usize = 1 << 14;

/// Most rows of a record batch, whose runs are put together.
const BATCH_ROWS: usize = 1 << 13;

/// A column that is added to a table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    InputIds,
    Labels,
    Trained,
    AttentionMask,
    PositionIds,
    MessageIndices,
    Length,
    OriginalLength,
    Roles,
    Neutralized,
    Dropped,
    Error,
}

impl Output {
    const ALL: [(&'static str, Self); 12] = [
        ("input_ids", Self::InputIds),
        ("labels", Self::Labels),
        ("trained", Self::Trained),
        ("attention_mask", Self::AttentionMask),
        ("position_ids", Self::PositionIds),
        ("message_indices", Self::MessageIndices),
        ("length", Self::Length),
        ("original_length", Self::OriginalLength),
        ("roles", Self::Roles),
        ("neutralized", Self::Neutralized),
        ("dropped", Self::Dropped),
        ("error", Self::Error),
    ];

    /// The column of a name.
    pub(crate) fn parse(word: &str) -> PyResult<Self> {
        let found = Self::ALL.iter().find(|(name, _)| *name == word);
        found.map(|(_, output)| *output).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|(name, _)| *name).collect();
            let known = known.join("`, `");
            let word = quoted(word);
            PyValueError::new_err(format!("`columns` holds {word}, expected some of `{known}`"))
        })
    }

    /// The columns that a caller asks for: by name, `input_ids` by default, with labels, with errors.
    pub(crate) fn wanted(
        names: Option<&ListOf<String>>,
        labels: bool,
        errors: bool,
    ) -> PyResult<Vec<Self>> {
        let mut wanted = match names {
            None => vec![Self::InputIds],
            Some(ListOf(names)) => {
                names.iter().map(|name| Self::parse(name)).collect::<PyResult<_>>()?
            }
        };
        for (is_wanted, output) in [(labels, Self::Labels), (errors, Self::Error)] {
            if is_wanted && !wanted.contains(&output) {
                wanted.push(output);
            }
        }
        Ok(wanted)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, output)| *output == self).map_or("", |(name, _)| name)
    }

    fn field(self, prefix: &str) -> Field {
        let list = |item| DataType::List(Arc::new(Field::new_list_field(item, true)));
        let kind = match self {
            Self::AttentionMask => list(DataType::Int8),
            Self::Trained | Self::Length | Self::OriginalLength => DataType::Int32,
            Self::Roles => list(DataType::Utf8),
            Self::Neutralized => list(DataType::Struct(fields(["path", "spelling"]))),
            Self::Dropped => list(DataType::Struct(fields(["path", "why"]))),
            Self::Error => DataType::Utf8,
            _ => list(DataType::Int32),
        };
        Field::new(format!("{prefix}{}", self.name()), kind, true)
    }
}

/// What becomes of a conversation with too many ids.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnLong {
    /// It is an error.
    Error,
    /// It has no ids.
    Drop,
    /// The oldest turns are left out.
    Oldest,
    /// The ids after the last that fits are left out.
    Cut,
}

impl OnLong {
    /// The policy of a word.
    pub(crate) fn parse(word: &str) -> PyResult<Self> {
        Ok(match word {
            "error" => Self::Error,
            "drop" => Self::Drop,
            "oldest" => Self::Oldest,
            "cut" => Self::Cut,
            _ => {
                let word = quoted(word);
                let problem =
                    format!("`on_long` is {word}, expected `error`, `drop`, `oldest` or `cut`");
                return Err(PyValueError::new_err(problem));
            }
        })
    }
}

/// How a table is encoded.
pub(crate) struct TableOptions {
    /// The greatest number of ids of a conversation.
    pub(crate) max_length: usize,
    pub(crate) on_long: OnLong,
    pub(crate) messages: Option<Vec<String>>,
    pub(crate) tools: Option<String>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) labels: LabelOptions,
    pub(crate) prefix: String,
    pub(crate) raises: bool,
    pub(crate) threads: usize,
    pub(crate) read: ReadOptions,
    pub(crate) encode: EncodeOptions,
}

/// Why a table was not encoded.
pub(crate) enum Failure {
    /// The table, or its reader.
    Table(String),
    /// The conversation of a row.
    Row(chatcodec::Error),
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Table(problem) => raise_data(problem),
            Failure::Row(error) => raise(error),
        }
    }
}

fn arrow_failure(error: &ArrowError) -> Failure {
    Failure::Table(format!("`table` cannot be read: {error}"))
}

/// What is kept of an encoded row.
struct Row {
    ids: Arc<Vec<i32>>,
    /// Number of ids before it was shortened.
    original: usize,
    /// Positions of the ids that are labels.
    labelled: Vec<Range<usize>>,
    indices: Vec<i32>,
    roles: Vec<String>,
    /// Paths and spellings of control tokens in the caller's text.
    neutralized: Vec<(String, String)>,
    /// Paths of the parts that the ids lack, and the reason for each.
    dropped: Vec<(String, &'static str)>,
}

/// The fields of an item of texts.
fn fields(names: [&str; 2]) -> Fields {
    names.into_iter().map(|name| Field::new(name, DataType::Utf8, true)).collect()
}

/// A table with the columns of its encoded conversations: an Arrow stream, `pa.table(encoded)`,
/// `pl.DataFrame(encoded)`. It can be read any number of times.
#[pyclass(module = "chatcodec._core", frozen)]
pub(crate) struct EncodedTable {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// Number of rows with labels none of which is trained on.
    untrained: usize,
}

impl EncodedTable {
    /// A table of one batch.
    pub(crate) fn of_batch(schema: SchemaRef, batch: RecordBatch) -> Self {
        Self { schema, batches: vec![batch], untrained: 0 }
    }

    /// Encodes the conversations of a table.
    pub(crate) fn encode(
        codec: &Codec,
        table: Box<dyn RecordBatchReader + Send>,
        options: &TableOptions,
    ) -> Result<Self, Failure> {
        let given = table.schema();
        let columns = Columns::find(&given, options.messages.as_deref(), options.tools.as_deref());
        let columns = columns.map_err(Failure::Table)?;
        let mut fields = given.fields().to_vec();
        for output in &options.outputs {
            let field = output.field(&options.prefix);
            if given.fields().iter().any(|known| known.name() == field.name()) {
                let name = field.name();
                let problem = format!(
                    "the table has a column `{name}` already; `prefix=` names the new columns otherwise"
                );
                return Err(Failure::Table(problem));
            }
            fields.push(Arc::new(field));
        }
        let mut metadata = given.metadata().clone();
        // The types of the columns before, which `datasets` refuses beside others.
        metadata.remove("huggingface");
        let schema = Arc::new(Schema::new_with_metadata(Fields::from(fields), metadata));
        let given: Vec<RecordBatch> = table
            .map(|batch| {
                let batch = batch.map_err(|error| arrow_failure(&error))?;
                columns.validate(&batch).map_err(Failure::Table)?;
                Ok(batch)
            })
            .collect::<Result<_, _>>()?;
        let rows = Rows { codec, columns: &columns, options, batches: &given };
        let parts = rows.parts()?;
        let untrained = parts.iter().map(|part| part.columns.untrained()).sum();
        let groups: Vec<_> =
            groups(parts).into_iter().map(|group| Mutex::new(Some(group))).collect();
        let finish = |at: usize| {
            let group = groups[at].lock().unwrap_or_else(PoisonError::into_inner).take();
            group.map(|group| rows.finish(group, &schema))
        };
        let batches = share(groups.len(), options.threads, finish).into_iter().flatten();
        Ok(Self { batches: batches.collect::<Result<_, _>>()?, schema, untrained })
    }
}

/// Rows of one batch, and their new columns.
struct Part<'a> {
    batch: usize,
    rows: Range<usize>,
    columns: Builders<'a>,
}

/// Parts that one record batch holds: neighbours, of one batch.
fn groups(parts: Vec<Part<'_>>) -> Vec<Vec<Part<'_>>> {
    let mut groups: Vec<Vec<Part<'_>>> = Vec::new();
    let (mut rows, mut ids) = (0, 0);
    for part in parts {
        rows += part.rows.len();
        ids += part.columns.ids.len();
        match groups.last_mut() {
            Some(group)
                if group[0].batch == part.batch
                    && rows <= BATCH_ROWS
                    && i32::try_from(ids).is_ok() =>
            {
                group.push(part);
            }
            _ => {
                (rows, ids) = (part.rows.len(), part.columns.ids.len());
                groups.push(vec![part]);
            }
        }
    }
    groups
}

/// The rows of a table as conversations.
struct Rows<'a> {
    codec: &'a Codec,
    columns: &'a Columns,
    options: &'a TableOptions,
    batches: &'a [RecordBatch],
}

/// The row of a batch that cannot be encoded, where that is an error.
struct Failed {
    batch: usize,
    row: usize,
    error: chatcodec::Error,
}

impl<'a> Rows<'a> {
    /// Encodes all rows, in parts.
    fn parts(&self) -> Result<Vec<Part<'a>>, Failure> {
        let run_rows = if self.options.threads > 1 { RUN_ROWS } else { BATCH_ROWS };
        let runs: Vec<(usize, Range<usize>)> = self
            .batches
            .iter()
            .enumerate()
            .flat_map(|(batch, rows)| {
                let count = rows.num_rows();
                // A batch without rows has its columns, too.
                let starts = (0..count.max(1)).step_by(run_rows);
                starts.map(move |start| (batch, start..(start + run_rows).min(count)))
            })
            .collect();
        // Nothing after a row that fails is needed.
        let first_failed = AtomicUsize::new(usize::MAX);
        let work = |at: usize| {
            if first_failed.load(Ordering::Relaxed) < at {
                return Ok(Vec::new());
            }
            let (batch, rows) = &runs[at];
            let done = self.run(*batch, rows.clone());
            if done.is_err() {
                first_failed.fetch_min(at, Ordering::Relaxed);
            }
            done
        };
        let mut parts = Vec::new();
        for done in share(runs.len(), self.options.threads, work) {
            parts.extend(done.map_err(|failed| self.failure(failed))?);
        }
        Ok(parts)
    }

    /// Encodes the rows of one job; gives several parts where one list column cannot hold all ids.
    fn run(&self, batch: usize, rows: Range<usize>) -> Result<Vec<Part<'a>>, Failed> {
        let part = |rows: Range<usize>| Part { batch, rows, columns: Builders::new(self.options) };
        let mut parts = vec![part(rows.start..rows.start)];
        for row in rows {
            let encoded = self.encode(&self.batches[batch], row);
            let encoded = match encoded {
                Err(error) if self.options.raises => return Err(Failed { batch, row, error }),
                encoded => encoded,
            };
            let fits = |columns: &Builders<'_>| match &encoded {
                Ok(Some(row)) => columns.has_room(row),
                _ => true,
            };
            if !parts.last().is_some_and(|last| fits(&last.columns)) {
                parts.push(part(row..row));
            }
            if let Some(last) = parts.last_mut() {
                last.columns.push(encoded);
                last.rows.end = row + 1;
                // The next rows are about as long.
                last.columns.reserve((last.columns.ids.len() * RUN_ROWS).min(RUN_IDS));
            }
        }
        Ok(parts)
    }

    fn encode(&self, batch: &RecordBatch, row: usize) -> chatcodec::Result<Option<Row>> {
        let Self { codec, options, .. } = self;
        let wants = |output| options.outputs.contains(&output);
        let conversation = self.columns.read(codec, batch, row, options.read)?;
        let roles = if wants(Output::Roles) { conversation.roles() } else { Vec::new() };
        let Some((encoding, original)) = shortened(codec, conversation, options)? else {
            return Ok(None);
        };
        let found = if wants(Output::Neutralized) { encoding.neutralized() } else { Vec::new() };
        let found = found.into_iter().map(|found| (encoding.path(found.path), found.spelling));
        let left_out = if wants(Output::Dropped) { encoding.dropped() } else { &[] };
        let left_out = left_out.iter().map(|part| (part.path.clone(), part.why.name()));
        let labels = wants(Output::Labels) || wants(Output::Trained);
        let mut row = Row {
            original,
            roles,
            neutralized: found.collect(),
            dropped: left_out.collect(),
            labelled: if labels { encoding.labelled(&options.labels) } else { Vec::new() },
            indices: if wants(Output::MessageIndices) {
                encoding.message_indices()
            } else {
                Vec::new()
            },
            ids: encoding.shared_ids(),
        };
        if row.ids.len() > options.max_length {
            row.cut(options.max_length);
        }
        Ok(Some(row))
    }

    /// The rows of a group with their new columns.
    fn finish(&self, group: Vec<Part<'_>>, schema: &SchemaRef) -> Result<RecordBatch, Failure> {
        let (batch, start) = group.first().map_or((0, 0), |part| (part.batch, part.rows.start));
        let count = group.iter().map(|part| part.rows.len()).sum();
        let ids = group.iter().map(|part| part.columns.ids.len()).sum();
        let mut parts = group.into_iter().map(|part| part.columns);
        let mut columns = parts.next().unwrap_or_else(|| Builders::new(self.options));
        columns.reserve(ids);
        let columns = parts.fold(columns, Builders::followed_by);
        columns.finish(&self.batches[batch].slice(start, count), schema)
    }

    /// What is told of a row that fails.
    fn failure(&self, Failed { batch, row, error }: Failed) -> Failure {
        let count =
            |batches: &[RecordBatch]| -> usize { batches.iter().map(RecordBatch::num_rows).sum() };
        let before = count(&self.batches[..batch]);
        let error = error.with_path(|path| format!("rows[{}].{path}", before + row));
        let given = &self.batches[batch];
        if !self.has_markup(given, row) {
            return Failure::Row(error);
        }
        let after = self.batches[batch + 1..].iter().map(|batch| self.with_markup(batch, 0));
        let found = self.with_markup(given, row) + after.sum::<usize>();
        let all = count(self.batches);
        Failure::Row(
            error
                .with_problem(|problem| format!("{problem}; {found} of {all} rows have such text")),
        )
    }

    /// Whether a row is refused for markup in an assistant's text alone.
    fn has_markup(&self, batch: &RecordBatch, row: usize) -> bool {
        let options = self.options.read;
        let is_read = |markup| {
            let options = ReadOptions { markup, ..options };
            self.columns.read(self.codec, batch, row, options).is_ok()
        };
        options.markup == Markup::Error && is_read(Markup::Text) && !is_read(Markup::Error)
    }

    /// The number of such rows from a row on.
    fn with_markup(&self, batch: &RecordBatch, from: usize) -> usize {
        let count = batch.num_rows() - from;
        let found = share(count, self.options.threads, |at| self.has_markup(batch, from + at));
        found.into_iter().filter(|found| *found).count()
    }
}

/// Encodes a conversation, with the number of ids of all of it; nothing for one that is dropped.
fn shortened(
    codec: &Codec,
    conversation: Conversation,
    options: &TableOptions,
) -> chatcodec::Result<Option<(Encoding, usize)>> {
    let limit = options.max_length;
    if options.on_long == OnLong::Oldest {
        let fitted = codec.fit(&conversation, limit, &options.encode)?;
        return Ok(Some((fitted.encoding, fitted.whole)));
    }
    let encoding = codec.encode_conversation(conversation, &options.encode)?;
    let count = encoding.ids().len();
    match options.on_long {
        OnLong::Error if count > limit => {
            let problem = format!("have {count} ids, expected at most {limit} (`max_length`)");
            Err(chatcodec::Error::Message { path: "messages".to_owned(), problem, droppable: None })
        }
        OnLong::Drop if count > limit => Ok(None),
        _ => Ok(Some((encoding, count))),
    }
}

impl Row {
    /// Leaves out the ids from `length` on.
    fn cut(&mut self, length: usize) {
        self.ids = Arc::new(self.ids[..length].to_vec());
        for ids in &mut self.labelled {
            *ids = ids.start.min(length)..ids.end.min(length);
        }
        self.indices.truncate(length);
    }
}

/// The new columns while rows are added.
struct Builders<'a> {
    outputs: &'a [Output],
    /// The number at places without a label, if labels are asked for.
    ignore_index: Option<i32>,
    offsets: Vec<i32>,
    valid: Vec<bool>,
    ids: Vec<i32>,
    labels: Vec<i32>,
    /// Number of ids of each row that are trained on, if labels are asked for, or their number is.
    trained: Option<Vec<i32>>,
    indices: Vec<i32>,
    originals: Vec<i32>,
    roles: TextLists<1>,
    neutralized: TextLists<2>,
    dropped: TextLists<2>,
    errors: StringBuilder,
}

/// A list column whose items are `N` texts.
struct TextLists<const N: usize> {
    offsets: Vec<i32>,
    texts: [StringBuilder; N],
}

impl<const N: usize> TextLists<N> {
    fn new() -> Self {
        Self { offsets: vec![0], texts: std::array::from_fn(|_| StringBuilder::new()) }
    }

    fn push(&mut self, items: impl IntoIterator<Item = [String; N]>) {
        for item in items {
            for (column, text) in self.texts.iter_mut().zip(item) {
                column.append_value(text);
            }
        }
        self.offsets.push(self.texts[0].len() as i32);
    }

    /// Adds the lists of others.
    fn append(&mut self, mut others: Self) {
        append_offsets(&mut self.offsets, &others.offsets);
        for (column, others) in self.texts.iter_mut().zip(&mut others.texts) {
            append_texts(column, others);
        }
    }

    /// The column; `join` makes an array of items of the arrays of texts.
    fn finish(
        &mut self,
        nulls: Option<&NullBuffer>,
        join: impl Fn([ArrayRef; N]) -> ArrayRef,
    ) -> ArrayRef {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(std::mem::take(&mut self.offsets)));
        let items = join(self.texts.each_mut().map(|text| Arc::new(text.finish()) as ArrayRef));
        let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
        Arc::new(ListArray::new(field, offsets, items, nulls.cloned()))
    }
}

/// Adds the offsets of lists that come after others.
fn append_offsets(offsets: &mut Vec<i32>, others: &[i32]) {
    let before = offsets.last().copied().unwrap_or_default();
    offsets.extend(others.iter().skip(1).map(|offset| before + offset));
}

fn append_texts(texts: &mut StringBuilder, others: &mut StringBuilder) {
    for text in &others.finish() {
        texts.append_option(text);
    }
}

impl<'a> Builders<'a> {
    fn new(options: &'a TableOptions) -> Self {
        let outputs = &options.outputs;
        let wants = |output| outputs.contains(&output);
        Self {
            outputs,
            ignore_index: wants(Output::Labels).then_some(options.labels.ignore_index),
            offsets: vec![0],
            valid: Vec::new(),
            ids: Vec::new(),
            labels: Vec::new(),
            trained: (wants(Output::Labels) || wants(Output::Trained)).then(Vec::new),
            indices: Vec::new(),
            originals: Vec::new(),
            roles: TextLists::new(),
            neutralized: TextLists::new(),
            dropped: TextLists::new(),
            errors: StringBuilder::new(),
        }
    }

    /// Whether the offsets of a list column reach over a row more.
    fn has_room(&self, row: &Row) -> bool {
        i32::try_from(self.ids.len() + row.ids.len()).is_ok()
    }

    /// Number of rows with labels none of which is trained on.
    fn untrained(&self) -> usize {
        let counts = self.trained.iter().flatten().zip(&self.valid);
        counts.filter(|(count, valid)| **valid && **count == 0).count()
    }

    fn push(&mut self, row: chatcodec::Result<Option<Row>>) {
        match row {
            Ok(Some(row)) => {
                if let Some(trained) = &mut self.trained {
                    trained.push(row.labelled.iter().map(Range::len).sum::<usize>() as i32);
                }
                self.originals.push(row.original as i32);
                self.ids.extend_from_slice(&row.ids);
                if let Some(ignore_index) = self.ignore_index {
                    let first = self.labels.len();
                    self.labels.resize(self.ids.len(), ignore_index);
                    for ids in row.labelled {
                        let labels = &mut self.labels[first..];
                        labels[ids.clone()].copy_from_slice(&row.ids[ids]);
                    }
                }
                self.indices.extend_from_slice(&row.indices);
                self.roles.push(row.roles.into_iter().map(|role| [role]));
                self.neutralized.push(row.neutralized.into_iter().map(<[_; 2]>::from));
                let dropped = row.dropped.into_iter();
                self.dropped.push(dropped.map(|(path, why)| [path, why.to_owned()]));
                self.valid.push(true);
                self.errors.append_null();
            }
            other => {
                self.trained.iter_mut().for_each(|trained| trained.push(0));
                self.valid.push(false);
                self.originals.push(0);
                self.roles.push([]);
                self.neutralized.push([]);
                self.dropped.push([]);
                self.errors.append_option(other.err().map(|error| error.to_string()));
            }
        }
        self.offsets.push(self.ids.len() as i32);
    }

    /// Makes room for so many ids in all.
    fn reserve(&mut self, ids: usize) {
        self.ids.reserve_exact(ids.saturating_sub(self.ids.len()));
        if self.ignore_index.is_some() {
            self.labels.reserve_exact(ids.saturating_sub(self.labels.len()));
        }
    }

    /// These rows, then others.
    fn followed_by(mut self, others: Self) -> Self {
        append_offsets(&mut self.offsets, &others.offsets);
        self.valid.extend_from_slice(&others.valid);
        self.ids.extend_from_slice(&others.ids);
        self.labels.extend_from_slice(&others.labels);
        if let (Some(trained), Some(others)) = (&mut self.trained, &others.trained) {
            trained.extend_from_slice(others);
        }
        self.indices.extend_from_slice(&others.indices);
        self.originals.extend_from_slice(&others.originals);
        self.roles.append(others.roles);
        self.neutralized.append(others.neutralized);
        self.dropped.append(others.dropped);
        let mut errors = others.errors;
        append_texts(&mut self.errors, &mut errors);
        self
    }

    /// The rows of a batch with the new columns.
    fn finish(mut self, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Failure> {
        let nulls = (!self.valid.iter().all(|valid| *valid))
            .then(|| NullBuffer::from(self.valid.as_slice()));
        let offsets = OffsetBuffer::new(ScalarBuffer::from(std::mem::take(&mut self.offsets)));
        let lengths: Vec<i32> = offsets.lengths().map(|length| length as i32).collect();
        let mut columns = batch.columns().to_vec();
        for output in self.outputs {
            let list = |items| list::<Int32Type>(&offsets, items, nulls.as_ref());
            let number = |items: Vec<i32>| -> ArrayRef {
                Arc::new(Int32Array::new(ScalarBuffer::from(items), nulls.clone()))
            };
            let column: ArrayRef = match output {
                Output::InputIds => list(std::mem::take(&mut self.ids)),
                Output::Labels => list(std::mem::take(&mut self.labels)),
                Output::MessageIndices => list(std::mem::take(&mut self.indices)),
                Output::PositionIds => list(lengths.iter().flat_map(|&end| 0..end).collect()),
                Output::AttentionMask => {
                    let ones = lengths.iter().map(|&length| length as usize).sum();
                    list_of_ones(&offsets, ones, nulls.as_ref())
                }
                Output::Trained => number(self.trained.take().unwrap_or_default()),
                Output::Length => number(lengths.clone()),
                Output::OriginalLength => number(std::mem::take(&mut self.originals)),
                Output::Roles => self.roles.finish(nulls.as_ref(), |[roles]| roles),
                Output::Neutralized => self.neutralized.finish(nulls.as_ref(), |texts| {
                    Arc::new(StructArray::new(fields(["path", "spelling"]), texts.into(), None))
                }),
                Output::Dropped => self.dropped.finish(nulls.as_ref(), |texts| {
                    Arc::new(StructArray::new(fields(["path", "why"]), texts.into(), None))
                }),
                Output::Error => Arc::new(self.errors.finish()),
            };
            columns.push(column);
        }
        RecordBatch::try_new(Arc::clone(schema), columns).map_err(|error| arrow_failure(&error))
    }
}

fn list_of_ones(offsets: &OffsetBuffer<i32>, ones: usize, nulls: Option<&NullBuffer>) -> ArrayRef {
    list::<Int8Type>(offsets, vec![1; ones], nulls)
}

fn list<T: ArrowPrimitiveType>(
    offsets: &OffsetBuffer<i32>,
    items: Vec<T::Native>,
    nulls: Option<&NullBuffer>,
) -> ArrayRef {
    let field = Arc::new(Field::new_list_field(T::DATA_TYPE, true));
    let items = PrimitiveArray::<T>::new(ScalarBuffer::from(items), None);
    Arc::new(ListArray::new(field, offsets.clone(), Arc::new(items), nulls.cloned()))
}

#[pymethods]
impl EncodedTable {
    /// The names of the columns, those of the table first.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// How many rows the table has.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// How many rows have labels none of which is trained on; 0 for a table without labels.
    #[getter]
    fn untrained(&self) -> usize {
        self.untrained
    }

    fn __len__(&self) -> usize {
        self.num_rows()
    }

    /// The schema as Arrow's capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Capsule<'py>> {
        schema_capsule(py, &self.schema).map(Capsule)
    }

    /// The table as Arrow's capsule of a stream of record batches, sharing the buffers. A consumer that wants
    /// other types casts by itself.
    #[pyo3(signature = (requested_schema: "object" = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Capsule<'py>> {
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        stream_capsule(py, Box::new(reader)).map(Capsule)
    }

    fn __repr__(&self) -> String {
        format!("EncodedTable({} rows)", self.num_rows())
    }
}
